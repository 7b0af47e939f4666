"""The JSON of the answers. FastAPI writes the OpenAPI document from it."""

from pydantic import BaseModel, Field


class ClassShare(BaseModel):
    index: int
    name: str
    colour: tuple[int, int, int]
    pixels: int
    share: float = Field(description="of all pixels, 0 to 1")


class Segmentation(BaseModel):
    width: int
    height: int
    classes: list[ClassShare] = Field(description="classes in the image, the largest first")
    labels_png: str = Field(description="labels of all pixels: a palette PNG in base64")
    seconds: float = Field(description="for segmentation, without waiting and decoding")


class StoredImageInfo(BaseModel):
    id: str = Field(description="for further questions, while the server keeps the image")
    width: int
    height: int
    view_width: int = Field(description="of the image in the page")
    view_height: int
    classes: list[ClassShare]
    seconds: float = Field(description="for segmentation, without waiting and decoding")


class Rank(BaseModel):
    rank: int
    weight: float = Field(description="its lambda; those of reconet sum to 1")
    share: float = Field(description="its part of what all ranks add to this image, 0 to 1")


class Ranks(BaseModel):
    ranks: list[Rank] = Field(description="largest share first")
    hover_png: str = Field(description="the baseline of changes: all ranks, one scale")


class RanksOff(BaseModel):
    off: list[int] = Field(description="ranks to switch off", max_length=2**15)


class ClassChange(BaseModel):
    index: int
    name: str
    gained: int = Field(description="pixels that now have this class")
    lost: int = Field(description="pixels that had it")


class RankChange(BaseModel):
    changed: int = Field(description="pixels with another class than with all ranks")
    pixels: int
    by_class: list[ClassChange]
    hover_png: str = Field(description="red: class, green: probability in 255ths; PNG in base64")


class Fact(BaseModel):
    name: str
    value: str


class UploadLimits(BaseModel):
    upload_bytes: int
    pixels: int


class ClassInfo(BaseModel):
    name: str
    colour: tuple[int, int, int]


class ModelInfo(BaseModel):
    title: str
    context: str
    backbone: str
    dataset: str
    classes: list[ClassInfo]
    rank: int = Field(description="number of ranks to explore; 0 if there are none")
    params: int | None
    macs: int | None = Field(description="multiply-adds for one crop")
    score: dict[str, float]
    recipe: dict[str, object]
    facts: list[Fact] = Field(description="the same and more, for people")
    limits: UploadLimits


class Example(BaseModel):
    name: str
    url: str


class Examples(BaseModel):
    about: str
    examples: list[Example]


class Health(BaseModel):
    status: str
    waiting: int = Field(description="requests in the queue, including the one in work")


class Problem(BaseModel):
    detail: str
