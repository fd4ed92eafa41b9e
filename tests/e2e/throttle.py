# SPDX-License-Identifier: Apache-2.0
"""A slow link: everything that passes through it shares so many bytes a second in each direction, connection by connection
in turn."""
import queue
import socket
import threading
import time

PIECE = 4096


class Link:
    def __init__(self, bytes_per_second):
        self.rate, self.sockets, self.closed = bytes_per_second, [], False
        self.turns = {"up": threading.Lock(), "down": threading.Lock()}
        self.passed = {"up": 0, "down": 0}

    def open(self):
        """A port of this side of the link: (address, a function that is told where the other side is)."""
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)  # or the kernel would hold most of a collective
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        self.sockets.append(listening)
        target = queue.Queue()
        threading.Thread(target=self._accept, args=(listening, target), daemon=True).start()
        return f"127.0.0.1:{listening.getsockname()[1]}", target.put

    def _accept(self, listening, target):
        host, port = target.get().rsplit(":", 1)
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            far = socket.socket()
            far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
            far.connect((host, int(port)))
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets += [near, far]
            for source, sink, way in ((near, far, "up"), (far, near, "down")):
                threading.Thread(target=self._pass_on, args=(source, sink, way), daemon=True).start()

    def _pass_on(self, source, sink, way):
        try:
            while data := source.recv(PIECE):
                with self.turns[way]:
                    time.sleep(len(data) / self.rate)  # the link is busy with these bytes
                    self.passed[way] += len(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        for one in self.sockets:
            one.close()
