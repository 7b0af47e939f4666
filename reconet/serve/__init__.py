"""A trained network as a web page and an HTTP interface, on this machine and for it alone.

- guard.py: who may ask, how much a request may bring, what every answer says to browsers
- uploads.py: the picture in a request, whichever way it was sent
- jobs.py: one picture at a time, a bounded number waiting, the rest turned away
- segment.py: a picture -> class and probability of each pixel; PNGs of them
- explore.py: the same with some ranks switched off, without the backbone again
- pictures.py: the last few pictures, so that the page can ask more about them
- facts.py: what the page says about the network, and the example pictures
- schemas.py: the JSON of the answers
- desk.py: what the routes share
- routes.py: the interface
- app.py: the application: page, facts, errors, and all of the above
- server.py: the socket, and uvicorn on it
- page/: the page, without a build step
"""
