"""Read the image in a request: the body itself, or the field `image` of a form."""

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from reconet.data.images.read import TooManyPixelsError, decode_upright
from reconet.errors import DataError
from reconet.serve.limits import Limits
from reconet.types import Image

FIELD = "image"
TYPES = (
    *("image/jpeg", "image/png", "image/webp", "image/bmp", "image/tiff", "image/gif"),
    *("image/x-portable-pixmap", "image/x-portable-graymap", "application/octet-stream"),
)


async def read_upload(request: Request) -> bytes:
    """Return the bytes of the image file."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind in TYPES:
        return await request.body()
    if kind == "multipart/form-data":
        return await _read_form(request)
    raise HTTPException(
        415,
        f"cannot read {kind or 'a body without Content-Type'}; send an image as {TYPES[0]}, "
        f"{TYPES[1]} or the like, or as field `{FIELD}` of multipart/form-data.",
    )


async def _read_form(request: Request) -> bytes:
    try:
        async with request.form(max_files=1, max_fields=8) as form:
            image = form.get(FIELD)
            if isinstance(image, UploadFile):
                return await image.read()
    except HTTPException as error:
        if error.status_code == 400:  # the form itself is broken
            raise HTTPException(422, f"cannot read the form: {error.detail}") from error
        raise
    except OSError as error:  # parts of a form are kept in a temporary folder, which may be full
        reason = error.strerror or error
        raise HTTPException(507, f"the server cannot keep the upload: {reason}.") from error
    raise HTTPException(422, f"the form has no file in a field `{FIELD}`.")


def decode_image(data: bytes, limits: Limits) -> Image:
    """Decode an image file, or raise the HTTP error that says what is wrong with it."""
    try:
        return decode_upright(data, "the image", limits.pixels)
    except TooManyPixelsError as error:
        raise HTTPException(413, str(error)) from error
    except DataError as error:
        raise HTTPException(422, str(error)) from error
