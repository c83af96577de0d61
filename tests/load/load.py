#!/usr/bin/env python3
"""clef-server under load, on loopback alone: prints one line a figure, and fails when a promise does not hold.

    load.py SERVER_PROGRAM MODEL [--seconds N] [--short] [--only NAME,...]

Short, it takes seconds and promises nothing about time: what is answered, and what is left of it, is counted. Needs Python
3.9, and wrk for the first scenario (without it, that one is skipped and says so; alone, it ends with 77). ulimit -n must
allow 4,096.
"""
import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

BODY = json.dumps({"model": "jev-latest", "state": "s", "questions": {"a": {"type": "noul"}}}).encode()
FAILURES, SKIPPED = [], []


def say(line):
    print(line, flush=True)


def promise(holds, what):
    say(("ok    " if holds else "FAILED ") + what)
    if not holds:
        FAILURES.append(what)


class Server:
    """One clef-server on a free port, for the length of a with block."""

    def __init__(self, program, model, *flags):
        self.folder = tempfile.mkdtemp(prefix="clef-load-")
        self.log = os.path.join(self.folder, "access.log")
        self.process = subprocess.Popen(
            [program, "-m", model, "--port", "0", "--access-log", self.log, *flags], stderr=subprocess.PIPE, text=True)
        self.port = None
        for line in self.process.stderr:
            found = re.search(r"listening on http://[^:]+:(\d+),", line)
            if found:
                self.port = int(found.group(1))
            if ": ready: " in line:
                break
        else:
            raise RuntimeError("the server did not start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)
        shutil.rmtree(self.folder)

    def wait_for(self, name, value, seconds=60):
        """Asks again and again until the metric is down to the value."""
        deadline = time.monotonic() + seconds
        while self.metric(name) > value and time.monotonic() < deadline:
            pass
        return self.metric(name)

    def metric(self, name):
        status, body = ask(self.port, b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert status == 200
        return sum(float(line.split()[-1]) for line in body.decode().splitlines()
                   if line.split("{")[0].split(" ")[0] == name)


def post(body=BODY, path="/v1/systemone", close=False):
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + (b"Connection: close\r\n" if close else b"") + b"\r\n" + body


def read_answer(stream):
    """(status, body, closes) of the next answer, or None at the stream's end."""
    line = stream.readline()
    if not line:
        return None
    status, length, closes = int(line.split()[1]), 0, False
    while True:
        line = stream.readline()
        if line in (b"\r\n", b""):
            break
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        if name.lower() == b"connection" and value.strip() == b"close":
            closes = True
    body = stream.read(length)
    return (status, body, closes) if len(body) == length else None


def connect(port, source=None):
    connection = socket.create_connection(("127.0.0.1", port), 60, (source, 0) if source else None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(port, request, source=None):
    with connect(port, source) as connection:
        connection.sendall(request)
        answer = read_answer(connection.makefile("rb"))
        assert answer, "no answer"
        return answer[:2]


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def latencies(port, seconds, source=None):
    """Of one client that asks again as soon as it is answered, in ms."""
    times = []
    with connect(port, source) as connection:
        stream = connection.makefile("rb")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.monotonic()
            connection.sendall(post())
            status, _, _ = read_answer(stream)
            assert status == 200, status
            times.append((time.monotonic() - start) * 1000)
    return times


def keep_alive(args):
    """256 connections that are never idle."""
    if not shutil.which("wrk"):
        say("SKIPPED: wrk is not installed, busy connections were NOT tried")
        SKIPPED.append("keep_alive")
        return
    count = 64 if args.short else 256
    with Server(args.server, args.model) as server, tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(f"wrk.method = 'POST'\nwrk.body = '{BODY.decode()}'\n"
                     "done = function(summary, latency, requests)\n"
                     "  local e = summary.errors\n"
                     "  io.write(string.format('answered %d, errors %d\\n', summary.requests,\n"
                     "    e.connect + e.read + e.write + e.status + e.timeout))\n"
                     "end\n")
        script.flush()
        before, files = server.metric("process_resident_memory_bytes"), server.metric("process_open_fds")
        # wrk counts what is answered in the time that it is given, and a busy machine may need more of it.
        seconds, out = args.seconds, ""
        while True:
            out = subprocess.run(["wrk", "-t2", f"-c{count}", f"-d{seconds}s", "--timeout", "60s", "--latency", "-s",
                                  script.name, f"http://127.0.0.1:{server.port}/v1/systemone"],
                                 capture_output=True, text=True, timeout=seconds + 120).stdout
            if seconds > 60 or not re.search(r"^answered 0,", out, re.M):
                break
            seconds *= 2
        figures = dict(re.findall(r"^\s+(50|90|99)%\s+(\S+)", out, re.M))
        rate = re.search(r"Requests/sec:\s+(\S+)", out)
        counts = re.search(r"^answered (\d+), errors (\d+)", out, re.M)
        say(f"      {count} connections for {seconds} s: {rate and rate.group(1)} requests/s, "
            f"p50 {figures.get('50')}, p99 {figures.get('99')}")
        promise(counts is not None and int(counts.group(1)) > 0, f"requests are answered ({counts and counts.group(1)})")
        promise(counts is not None and counts.group(2) == "0", f"no error among them ({counts and counts.group(2)})")
        server.wait_for("clef_connections", 1)
        promise(server.metric("process_open_fds") <= files, "no descriptor is left behind")
        growth = (server.metric("process_resident_memory_bytes") - before) / 1e6
        say(f"      memory grew by {growth:.1f} MB from an idle server to a busy one")


def slow_loris(args):
    """1,000 sockets that send a byte a second, from another address than the client that asks."""
    if args.short:
        return slow_loris_in_short(args)
    with Server(args.server, args.model, "--max-client-connections", "0") as server:
        seconds = max(5, args.seconds // 3)
        latencies(server.port, 2)
        alone = percentile(latencies(server.port, seconds), 0.99)
        sockets = [connect(server.port, "127.0.0.2") for _ in range(1000)]
        request, stop = post(), threading.Event()

        def drip():
            sent = 0
            while not stop.wait(1):
                for one in sockets:
                    try:
                        one.send(request[sent:sent + 1])
                    except OSError:
                        pass
                sent += 1

        dripping = threading.Thread(target=drip)
        dripping.start()
        beside = percentile(latencies(server.port, seconds), 0.99)
        stop.set()
        dripping.join()
        for one in sockets:
            one.close()
        say(f"      p99 of one client: {alone:.1f} ms alone, {beside:.1f} ms beside 1,000 slow sockets")
        promise(beside <= 2 * alone, "slow sockets cost a normal client less than twice its p99")


def slow_loris_in_short(args):
    with Server(args.server, args.model, "--head-timeout", "2") as server:
        sockets = [connect(server.port, "127.0.0.2") for _ in range(200)]
        answered = 0
        for sent in range(10):  # a byte of each between the requests of one who is not slow
            for one in sockets:
                one.send(post()[sent:sent + 1])
            answered += ask(server.port, post())[0] == 200
        say(f"      {answered} requests answered beside {server.metric('clef_connections') - 1:.0f} slow sockets")
        promise(answered == 10, "slow sockets keep nobody from an answer")
        promise(server.wait_for("clef_connections", 1) <= 1, "and are closed in the end")
        for one in sockets:
            one.close()


def churn(args):
    """10,000 connections, one request each."""
    count = 1_000 if args.short else 10_000
    with Server(args.server, args.model) as server:
        request = b"GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        for _ in range(count // 20):
            ask(server.port, post(close=True))
            ask(server.port, request)
        files, memory = server.metric("process_open_fds"), server.metric("process_resident_memory_bytes")
        start = time.monotonic()
        for i in range(count):
            if i % 10 == 0:
                ask(server.port, post(close=True))
            elif i % 10 == 1:
                connect(server.port).close()
            else:
                ask(server.port, request)
        seconds = time.monotonic() - start
        files_after, memory_after = server.metric("process_open_fds"), server.metric("process_resident_memory_bytes")
        say(f"      {count:,} connections in {seconds:.1f} s: descriptors {files:.0f} -> {files_after:.0f}, "
            f"memory {memory / 1e6:.1f} -> {memory_after / 1e6:.1f} MB")
        promise(files_after <= files, "no descriptor is left behind")
        promise(memory_after <= memory * 1.05 + 2e6, "no memory is left behind")


def terminate(args):
    """SIGTERM while 64 clients ask without pause."""
    num_clients, enough = (16, 50) if args.short else (64, 200)
    with Server(args.server, args.model) as server:
        counts = {"answered": 0, "lost": 0, "other": 0}
        lock, going = threading.Lock(), threading.Event()

        def client():
            try:
                connection = connect(server.port)
            except OSError:
                return
            with connection:
                stream = connection.makefile("rb")
                while True:
                    try:
                        connection.sendall(post())
                    except OSError:
                        return
                    try:
                        answer = read_answer(stream)
                    except OSError:
                        answer = None
                    with lock:
                        kind = "lost" if answer is None else "answered" if answer[0] == 200 else "other"
                        counts[kind] += 1
                        if counts["answered"] >= enough:
                            going.set()
                    if answer is None or answer[2]:
                        return

        clients = [threading.Thread(target=client) for _ in range(num_clients)]
        for one in clients:
            one.start()
        going.wait(120)
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        for one in clients:
            one.join()
        code = server.process.wait(60)
        with open(server.log, encoding="utf-8") as log:
            statuses = [json.loads(line)["status"] for line in log]
        say(f"      SIGTERM under load: {counts['answered']} answered, {counts['lost']} lost, ended after "
            f"{time.monotonic() - start:.1f} s with status {code}; the log has {statuses.count(200)} times 200")
        promise(counts["lost"] == 0 and counts["other"] == 0, "no accepted request is lost")
        promise(code == 0, "the server ends in order")
        promise(statuses.count(200) == counts["answered"], "the log has what the clients have")


CLIENT = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.sendall(sys.stdin.buffer.read())
print("sent", flush=True)
connection.recv(1)
"""


def killed_client(args):
    """kill -9 of clients whose requests wait."""
    with Server(args.server, args.model) as server:
        words = 2000 if args.short else 6000
        long_body = json.dumps({"model": "jev-latest", "state": "word " * words, "questions": {"a": {"type": "noul"}}})
        clients = []
        for _ in range(8):
            one = subprocess.Popen([sys.executable, "-c", CLIENT, str(server.port)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
            one.stdin.write(post(long_body.encode()))
            one.stdin.close()
            clients.append(one)
        for one in clients:
            one.stdout.readline()
        deadline = time.monotonic() + 60
        while server.metric("clef_waiting_requests") < 6 and time.monotonic() < deadline:
            pass
        waiting = server.metric("clef_waiting_requests")
        for one in clients:
            one.kill()
            one.wait()
        start = time.monotonic()
        server.wait_for("clef_waiting_requests", 0)
        freed = time.monotonic() - start
        say(f"      8 clients killed with {waiting:.0f} requests waiting: all gone from the queue after {freed * 1000:.0f} ms")
        promise(server.metric("clef_waiting_requests") == 0, "their work is freed")
        promise(server.metric("clef_clients_gone_total") >= waiting, "and counted")


SCENARIOS = {one.__name__: one for one in (keep_alive, slow_loris, churn, terminate, killed_client)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("model")
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default=",".join(SCENARIOS))
    args = parser.parse_args()
    args.seconds = args.seconds or (3 if args.short else 60)
    for name in args.only.split(","):
        say(f"{name}: {SCENARIOS[name].__doc__}")
        SCENARIOS[name](args)
    sys.exit(1 if FAILURES else 77 if SKIPPED and args.only in SKIPPED else 0)


if __name__ == "__main__":
    main()
