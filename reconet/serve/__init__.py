"""Serve a trained network as a web page and an HTTP interface.

server.py       open_server(): the socket, the network, and uvicorn
limits.py       Limits: how much a server accepts
app.py          the application: page, routes, security and error messages
routes.py       the HTTP interface
schemas.py      the JSON of its answers
service.py      what the routes share: network, queue, stored images
security.py     check each request before it reaches a route
uploads.py      read the image in a request
work_queue.py   one image at a time, a bounded number waiting
pixel_map.py    class and probability of each pixel, and PNGs of them
explore.py      the same with some ranks of the attention switched off
image_store.py  the last few images, for further questions about them
model_info.py   what the page tells about the network
examples.py     example images
page/           the web page, without a build step

The packages of the extra `serve` are imported when a server is opened. This door needs none.
"""

from reconet.serve.limits import Limits
from reconet.serve.server import Server, open_server

__all__ = ["Limits", "Server", "open_server"]
