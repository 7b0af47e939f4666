"""Serve a trained network as a web page and an HTTP interface.

server.py     open_server(): the socket, the network, and uvicorn
app.py        the application: page, routes, security and error messages
routes.py     the HTTP interface
schemas.py    the JSON of its answers
security.py   check each request before it reaches a route
images.py     one image at a time: read it, keep it, write what was found
explore.py    segment with some ranks of the attention switched off
about.py      what the page tells about the network, and example images
page/         the web page, without a build step

The packages of the extra `serve` are imported when a server is opened. This door needs none.
"""

from reconet.serve.server import Limits, Server, listen, open_server

__all__ = ["Limits", "Server", "listen", "open_server"]
