"""gRPC's own Python, calling the Go server of the gRPC peer.

What it is used for is in ../README.md.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "callers"), str(HERE)]

import echo_pb2  # noqa: E402
import echo_pb2_grpc  # noqa: E402
import grpc  # noqa: E402
from calling import Exchange, echoing, obey, payload_of, verify  # noqa: E402

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
    stub = echo_pb2_grpc.EchoStub(grpc.insecure_channel(address))
    return [lambda payload: stub.Echo(echo_pb2.Bytes(data=payload)).data] * callers


def main() -> None:
    match sys.argv[1:]:
        case ["call", address, size, callers]:
            payload = payload_of(int(size))
            obey(echoing(open_callers(address, int(callers)), payload), expected=payload)
        case ["verify", address, size, callers]:
            verify(open_callers(address, int(callers)), int(size))
        case ["describe"]:
            print(json.dumps(DESCRIPTION))
        case _:
            sys.exit("usage: main.py call or verify ADDRESS PAYLOAD_BYTES CALLERS, or describe; grpc serves")


if __name__ == "__main__":
    main()
