"""A trained network as a web page and an HTTP interface, on this machine and for it alone.

- guard.py: who may ask, how much a request may bring, what every answer says to browsers
- uploads.py: the image in a request, whichever way it was sent
- jobs.py: one image at a time, a bounded number waiting, the rest turned away
- segment.py: an image -> class and probability of each pixel; PNGs of them
- explore.py: the same with some ranks switched off, without the backbone again
- images.py: the last few images, so that the page can ask more about them
- facts.py: what the page says about the network, and the example images
- schemas.py: the JSON of the answers
- desk.py: what the routes share
- routes.py: the interface
- app.py: the application: page, facts, errors, and all of the above
- server.py: the socket, and uvicorn on it
- page/: the page, without a build step
"""
