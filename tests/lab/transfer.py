# SPDX-License-Identifier: Apache-2.0
"""Plain TCP between two hosts of a lab.

receive PORT: takes one connection to its end and prints its congestion control, the bytes and the times of the first and the last.
send ADDRESS PORT BYTES
connect ADDRESS PORT LIMIT_S: ends with 0 if it gets a connection
serve PORT: accepts connections until it is ended
tick ADDRESS PORT: sends a byte every 10 ms and prints a line for each that came back
echo PORT: sends back what one connection brings
"""
import socket
import sys
import time

BLOCK = 1 << 16


def listen(port):
    listener = socket.create_server(("0.0.0.0", int(port)))
    print("listening", flush=True)
    return listener


def receive(port):
    connection, _ = listen(port).accept()
    total = len(connection.recv(BLOCK))
    start, first = time.monotonic(), total
    while block := connection.recv(BLOCK):
        total += len(block)
    print("control", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode())
    print("received", total - first, start, time.monotonic())


def send(address, port, count):
    with socket.create_connection((address, int(port)), timeout=20) as connection:
        block = bytes(BLOCK)
        left = int(count)
        while left > 0:
            left -= connection.send(block[:left])


def connect(address, port, limit_s):
    socket.create_connection((address, int(port)), timeout=float(limit_s)).close()


def serve(port):
    listener = listen(port)
    while True:
        listener.accept()[0].close()


def echo(port):
    connection, _ = listen(port).accept()
    while block := connection.recv(BLOCK):
        connection.sendall(block)


def tick(address, port):
    connection = socket.create_connection((address, int(port)), timeout=20)
    connection.settimeout(None)
    for number in range(1, 1 << 30):
        connection.sendall(b".")
        connection.recv(1)
        print("tick", number, flush=True)
        time.sleep(0.01)


if __name__ == "__main__":
    {"receive": receive, "send": send, "connect": connect, "serve": serve, "echo": echo, "tick": tick}[sys.argv[1]](*sys.argv[2:])
