"""gRPC's own Python, calling the Go server of the gRPC peer.

What it is used for is in ../README.md.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "callers"))

import grpc
from calling import Exchange, peer
from google.protobuf.wrappers_pb2 import BytesValue

DESCRIPTION = {
    "version": f"grpcio {grpc.__version__}",
    "language": "Python; the server is the gRPC peer's, in Go",
    "connections": "one for all callers, which are threads",
    "configuration": (
        "Unix socket, insecure channel, one stub, unary calls of the synchronous API, as in its quick start;"
        " callers block as all others here do, so asyncio, which its performance guide names too, is not used"
    ),
    "documentation": "https://grpc.io/docs/languages/python/quickstart/",
}


def open_callers(address: str, callers: int) -> list[Exchange]:
    # As its compiler makes a stub: see ../protobuf.
    echo = grpc.insecure_channel(address).unary_unary(
        "/nearcall.peers.Echo/Echo",
        request_serializer=BytesValue.SerializeToString,
        response_deserializer=BytesValue.FromString,
        _registered_method=True,
    )
    return [lambda payload: echo(BytesValue(value=payload)).value] * callers


if __name__ == "__main__":
    peer(DESCRIPTION, open_callers)
