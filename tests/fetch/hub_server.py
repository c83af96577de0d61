"""A hub on this machine: the addresses, heads and pages of the Hugging Face hub, as far as fetching a model meets them.

Two HTTP servers with an origin each. The hub answers the API and `resolve`: small files after a redirect on the same
host, large ones (LFS) with a 302 to a signed address of the second server, the CDN. Every request is recorded, and
`fault`, a function of the request, may answer in place of the regular code or bend it.
"""
import hashlib
import http.server
import json
import os
import socket
import ssl
import threading
import urllib.parse

LFS_BYTES = 64 * 1024
CHUNK = 256 * 1024


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class StoredFile:
    """A file as the hub knows it. `path` on disk, so that it can be sent without passing through Python."""

    def __init__(self, path):
        self.path = path
        self.size = os.path.getsize(path)
        with open(path, "rb") as file:
            data = file.read()
        self.oid = git_sha1(data)
        self.is_lfs = self.size >= LFS_BYTES
        self.sha256 = hashlib.sha256(data).hexdigest() if self.is_lfs else None

    @property
    def digest(self):
        return self.sha256 if self.is_lfs else self.oid


class Request:
    """One request, as tests and faults see it."""

    def __init__(self, server, handler):
        self.server = server  # "hub" or "cdn"
        self.handler = handler
        self.path, _, self.query = handler.path.partition("?")
        self.headers = handler.headers
        self.range = handler.headers.get("Range")

    @property
    def name(self):
        return urllib.parse.unquote(self.path.rsplit("/", 1)[-1])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kind = "hub"
    hub = None

    def log_message(self, *args):
        pass

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self):
        request = Request(self.kind, self)
        with self.hub.lock:
            self.hub.requests.append(request)
            fault = self.hub.fault
        try:
            if fault is not None and fault(request):
                return
            (self.answer_hub if self.kind == "hub" else self.answer_cdn)(request)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    # Answers, for faults too.

    def send(self, status, body=b"", **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def drop(self):
        """Ends the connection in the middle of whatever it was."""
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def send_file(self, stored, request, limit=None, ignore_range=False, shown_size=None):
        """The whole or the range that was asked for; after `limit` bytes the connection is dropped."""
        size = stored.size if shown_size is None else shown_size
        first, end = 0, size
        is_range = request.range is not None and not ignore_range
        if is_range:
            first, last = request.range.removeprefix("bytes=").split("-")
            first, end = int(first), min(size, int(last) + 1)
            if first >= size:
                return self.send(416, Content_Range=f"bytes */{size}")
        self.send_response(206 if is_range else 200)
        if is_range:
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{size}")
        if self.kind == "hub":
            self.send_header("ETag", f'"{stored.oid}"')
        self.send_header("Content-Length", str(end - first))
        self.end_headers()
        self.wfile.flush()
        stop = end if limit is None else min(end, first + limit)
        with open(stored.path, "rb") as file:
            at = first
            while at < stop:
                if self.hub.pace is not None:
                    self.hub.pace(self.hub)
                count = min(CHUNK if self.hub.pace else 16 * CHUNK, stop - at)
                if isinstance(self.connection, ssl.SSLSocket):
                    file.seek(at)
                    self.wfile.write(file.read(count))
                    sent = count
                else:
                    sent = os.sendfile(self.connection.fileno(), file.fileno(), at, count)
                    if sent == 0:
                        return self.drop()
                at += sent
                with self.hub.lock:
                    self.hub.bytes_sent += sent
                    self.hub.lock.notify_all()
        if stop < end:
            self.drop()

    # The regular answers.

    def answer_hub(self, request):
        parts = [urllib.parse.unquote(part) for part in request.path.split("/")[1:]]
        if len(parts) > 3 and parts[:2] == ["api", "models"]:
            return self.answer_api(request, "/".join(parts[2:4]), parts[4:])
        if len(parts) > 4 and parts[2] == "resolve":
            return self.answer_resolve(request, "/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        if len(parts) > 5 and parts[:3] == ["api", "resolve-cache", "models"]:
            stored = self.hub.find("/".join(parts[3:5]), parts[5], "/".join(parts[6:]))
            if stored is not None:
                return self.send_file(stored, request)
        self.send(404, b'{"error":"Not Found"}')

    def may_read(self, repo):
        token = self.hub.tokens.get(repo)
        if token is None:
            return True
        given = self.headers.get("Authorization")
        if given == f"Bearer {token}":
            return True
        if given is None:
            self.send(401, b'{"error":"Repository not found"}', X_Error_Code="RepoNotFound",
                      X_Error_Message="Repository not found")
        else:
            self.send(403, b'{"error":"gated"}', X_Error_Code="GatedRepo",
                      X_Error_Message=f"Access to model {repo} is restricted")
        return False

    def answer_api(self, request, repo, rest):
        if not self.may_read(repo):
            return
        if repo not in self.hub.repos:
            return self.send(401, b'{"error":"Repository not found"}', X_Error_Code="RepoNotFound")
        if len(rest) == 2 and rest[0] == "revision":
            commit = self.hub.refs[repo].get(rest[1], rest[1])
            if commit not in self.hub.repos[repo]:
                return self.send(404, b'{"error":"Invalid rev id"}', X_Error_Code="RevisionNotFound")
            return self.send(200, json.dumps({"id": repo, "sha": commit}).encode())
        if len(rest) == 2 and rest[0] == "tree" and rest[1] in self.hub.repos[repo]:
            entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "folder"}]
            for path, stored in sorted(self.hub.repos[repo][rest[1]].items()):
                entry = {"type": "file", "oid": stored.oid, "size": stored.size, "path": path}
                if stored.is_lfs:
                    entry["lfs"] = {"oid": stored.sha256, "size": stored.size, "pointerSize": 134}
                entries.append(entry)
            fields = urllib.parse.parse_qs(request.query)
            start = int(fields.get("cursor", ["0"])[0])
            page = entries[start:start + self.hub.page_size]
            headers = {}
            if start + self.hub.page_size < len(entries):
                following = f"{self.hub.url}{request.path}?recursive=true&cursor={start + self.hub.page_size}"
                headers["Link"] = f'<{following}>; rel="next"'
            return self.send(200, json.dumps(page).encode(), **headers)
        self.send(404, b'{"error":"Not Found"}')

    def answer_resolve(self, request, repo, commit, path):
        if not self.may_read(repo):
            return
        stored = self.hub.find(repo, commit, path)
        if stored is None:
            return self.send(404, b"Entry not found", X_Error_Code="EntryNotFound")
        head = {"X_Repo_Commit": commit, "X_Linked_Size": stored.size, "X_Linked_Etag": f'"{stored.digest}"'}
        if stored.is_lfs:
            location = f"{self.hub.cdn_url}/blobs/{stored.sha256}?X-Signature={self.hub.signature}"
            return self.send(302, b"Found", Location=location, **head)
        # A relative address, as the hub gives for files that it keeps itself.
        quoted = urllib.parse.quote(f"/api/resolve-cache/models/{repo}/{commit}/{path}")
        self.send(307, b"Temporary Redirect", Location=quoted, **head)

    def answer_cdn(self, request):
        if request.query != f"X-Signature={self.hub.signature}":
            return self.send(403, b"<Error>Expired</Error>")
        stored = self.hub.blobs.get(request.name)
        if stored is None:
            return self.send(404)
        self.send_file(stored, request)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # clients that are killed on purpose


class Hub:
    def __init__(self, certificate=None):
        self.lock = threading.Condition()
        self.repos, self.refs, self.tokens, self.blobs = {}, {}, {}, {}
        self.page_size = 1000
        self.signature = "first"
        self.closing = threading.Event()
        self.reset()
        self.servers = []
        urls = []
        for kind in ("hub", "cdn"):
            handler = type(f"{kind}_handler", (Handler,), {"kind": kind, "hub": self})
            server = Server(("127.0.0.1", 0), handler)
            scheme, host = "http", "127.0.0.1"
            if certificate is not None:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(certificate)
                server.socket = context.wrap_socket(server.socket, server_side=True)
                scheme, host = "https", "localhost"
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            self.servers.append(server)
            urls.append(f"{scheme}://{host}:{server.server_address[1]}")
        self.url, self.cdn_url = urls

    def reset(self):
        """Forgets faults and what was recorded."""
        with self.lock:
            self.fault = None
            self.pace = None  # called before each chunk
            self.requests = []
            self.bytes_sent = 0

    def add_repo(self, repo, commit, files):
        """`files`: path in the repository to path on disk."""
        stored = {path: StoredFile(real) for path, real in files.items()}
        self.repos.setdefault(repo, {})[commit] = stored
        self.refs.setdefault(repo, {})["main"] = commit
        for file in stored.values():
            if file.is_lfs:
                self.blobs[file.sha256] = file

    def find(self, repo, commit, path):
        return self.repos.get(repo, {}).get(commit, {}).get(path)

    def wait_for_bytes(self, count, timeout=30):
        with self.lock:
            return self.lock.wait_for(lambda: self.bytes_sent >= count, timeout)

    def close(self):
        self.closing.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()
