"""The same application under hypercorn."""

import asyncio
import sys

from hypercorn.config import Config
from with_uvicorn import app

from nearcall.hypercorn import serve

asyncio.run(serve(app, Config(), sys.argv[1]))
