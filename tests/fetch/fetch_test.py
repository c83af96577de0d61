"""clef-tool fetch against a hub of our own. Each way to fail ends right or in one clear message, and nothing
half-written is ever taken for a model.

    fetch_test.py CLEF_TOOL CLEF SNAPSHOT [unittest's arguments]
"""
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hub_server import Hub, git_sha1  # noqa: E402

TOOL, CLEF, SNAPSHOT = map(os.path.abspath, sys.argv[1:4])
REPO = "Some-Org/clef-tiny"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_a_secret_that_must_not_leak"
EXTRA_BYTES = 40 << 20  # of a file that takes several notes in the journal
REQUEST = '{"model":"m","state":"s","questions":{"q":{"type":"noul"}}}'


class FetchTest(unittest.TestCase):
    certificate = None

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="clef-fetch-")
        cls.files = {}
        for folder, _, names in os.walk(SNAPSHOT):
            for name in names:
                path = os.path.join(folder, name)
                cls.files[os.path.relpath(path, SNAPSHOT)] = path
        # The model reads neither; they stand for a large file, and for names that need quoting.
        cls.files["notes/bytes.bin"] = os.path.join(cls.root, "bytes.bin")
        with open(cls.files["notes/bytes.bin"], "wb") as file:
            file.write(random.Random(1).randbytes(EXTRA_BYTES))
        cls.files["notes/a b#c%20é.txt"] = os.path.join(cls.root, "odd.txt")
        with open(cls.files["notes/a b#c%20é.txt"], "wb") as file:
            file.write(b"odd")
        cls.files["notes/empty"] = os.path.join(cls.root, "empty")
        open(cls.files["notes/empty"], "wb").close()
        cls.hub = Hub(cls.certificate)
        cls.hub.add_repo(REPO, COMMIT, cls.files)

    @classmethod
    def tearDownClass(cls):
        cls.hub.close()
        shutil.rmtree(cls.root, ignore_errors=True)

    def setUp(self):
        self.hub.reset()
        self.hub.tokens.clear()
        self.hub.signature = "first"
        self.hub.page_size = 1000
        self.work = tempfile.mkdtemp(dir=self.root)
        self.model = os.path.join(self.work, "model")

    def tearDown(self):
        self.hub.reset()
        shutil.rmtree(self.work, ignore_errors=True)

    def environment(self, **more):
        kept = {"PATH": os.environ["PATH"], "HOME": self.work, "HF_ENDPOINT": self.hub.url}
        for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "LD_LIBRARY_PATH"):
            if name in os.environ:
                kept[name] = os.environ[name]
        kept.update(more)
        return kept

    def start(self, *arguments, model=REPO, environment=None):
        command = [TOOL, "fetch", model, "--dir", self.model, "--retry-delay", "0.02", "--stall-timeout", "1",
                   *arguments]
        return subprocess.Popen(command, env=environment or self.environment(), text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, cwd=self.work)

    def fetch(self, *arguments, **options):
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=120)
        self.assertNotIn(TOKEN, out + err)
        return process.returncode, out, err

    def assert_fetched(self, result=None):
        if result is not None:
            self.assertEqual(result[0], 0, result[2])
        self.assertFalse(os.path.exists(os.path.join(self.model, ".cache/cleffa/incomplete")))
        for path, original in self.files.items():
            with open(os.path.join(self.model, path), "rb") as got, open(original, "rb") as expected:
                self.assertEqual(got.read(), expected.read(), path)

    def assert_refused(self, result, *words):
        """A failure in one message that says so, and a folder that nothing takes for a model."""
        self.assertEqual(result[0], 1, result)
        self.assertNotIn("check failed", result[2])
        last = result[2].strip()
        for word in words:
            self.assertIn(word, last)
        self.assert_no_model()

    def assert_no_model(self):
        """Either the folder is no model, or it is whole."""
        if not os.path.isdir(self.model):
            return
        for path, original in self.files.items():
            placed = os.path.join(self.model, path)
            if os.path.exists(placed) and not os.path.islink(placed):
                with open(placed, "rb") as got, open(original, "rb") as expected:
                    self.assertEqual(hashlib.sha256(got.read()).digest(), hashlib.sha256(expected.read()).digest(),
                                     f"{path} was placed, and is not whole")
        answer = subprocess.run([CLEF, "-m", self.model], input=REQUEST, text=True, capture_output=True,
                                env=self.environment())
        self.assertEqual(answer.returncode, 1, answer.stdout)
        self.assertEqual(answer.stdout, "")

    def on(self, server, test, answer):
        """Lets `answer` speak for requests to `server` that `test` picks; counts them."""
        picked = []

        def fault(request):
            if request.server != server or not test(request):
                return False
            picked.append(request)
            return answer(request, len(picked)) is not False

        self.hub.fault = fault
        return picked


class Download(FetchTest):
    def test_a_fresh_download_is_a_model(self):
        self.hub.page_size = 3
        result = self.fetch()
        self.assert_fetched(result)
        self.assertIn("every byte checked", result[1])
        # First use of a revision that is not built in: the digests are shown and kept.
        self.assertIn("not built into this program", result[1])
        weights = self.hub.repos[REPO][COMMIT]["joint_head.safetensors"]
        self.assertIn(weights.sha256, result[1])
        answer = subprocess.run([CLEF, "-m", self.model], input=REQUEST, text=True, capture_output=True)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn('"answers"', answer.stdout)
        pages = [r for r in self.hub.requests if "/tree/" in r.path]
        self.assertGreater(len(pages), 3)

    def test_a_second_fetch_brings_nothing_and_says_so(self):
        self.assert_fetched(self.fetch())
        self.hub.reset()
        result = self.fetch()
        self.assert_fetched(result)
        self.assertNotIn("not built into this program", result[1])
        self.assertFalse([r for r in self.hub.requests if "/resolve/" in r.path])

    def test_without_network_what_is_there_is_checked(self):
        self.assert_fetched(self.fetch())
        self.hub.reset()
        self.assert_fetched(self.fetch("--skip-download"))
        self.assertEqual(self.hub.requests, [])
        with open(os.path.join(self.model, "joint_head.safetensors"), "r+b") as file:
            file.seek(1000)
            byte = file.read(1)
            file.seek(1000)
            file.write(bytes([byte[0] ^ 1]))
        os.remove(os.path.join(self.model, "config.json"))
        os.symlink("tokenizer.json", os.path.join(self.model, "link.json"))
        os.mkdir(os.path.join(self.model, "__pycache__"))
        open(os.path.join(self.model, "__pycache__", "x.pyc"), "wb").close()
        code, _, err = self.fetch("--skip-download")
        self.assertEqual(code, 1)
        for line in ("MISSING config.json", "EXTRA __pycache__/x.pyc", "LINKED link.json",
                     "CHANGED joint_head.safetensors: expected sha256"):
            self.assertIn(line, err)
        self.assertEqual(self.hub.requests, [])

    def test_a_changed_file_is_refused_and_repaired_on_request(self):
        self.assert_fetched(self.fetch())
        path = os.path.join(self.model, "config.json")
        with open(path, "a") as file:
            file.write(" ")
        code, _, err = self.fetch()
        self.assertEqual(code, 1)
        self.assertIn("CHANGED config.json: expected", err)
        self.assertIn("--repair", err)
        self.assert_fetched(self.fetch("--repair"))

    def test_a_folder_with_other_files_is_left_alone(self):
        os.mkdir(self.model)
        with open(os.path.join(self.model, "thesis.tex"), "w") as file:
            file.write("x")
        code, _, err = self.fetch()
        self.assertEqual(code, 1)
        self.assertIn("EXTRA thesis.tex", err)
        self.assertEqual([n for n in os.listdir(self.model) if n != ".cache"], ["thesis.tex"])

    def test_a_link_among_the_folders_is_not_followed(self):
        outside = os.path.join(self.work, "outside")
        os.mkdir(outside)
        os.mkdir(self.model)
        os.symlink(outside, os.path.join(self.model, "notes"))
        code, _, err = self.fetch()
        self.assertEqual(code, 1)
        self.assertIn("LINKED notes", err)
        self.assertEqual(os.listdir(outside), [])

    def test_one_file_comes_over_several_connections(self):
        self.assert_fetched(self.fetch("--connections", "4"))
        ranges = [r for r in self.hub.requests if r.server == "cdn"]
        self.assertGreater(len(ranges), 3)
        # One connection gives the same.
        shutil.rmtree(self.model)
        self.assert_fetched(self.fetch("--connections", "1"))

    def test_a_server_without_ranges_will_do(self):
        def whole(request, _):
            stored = self.hub.blobs[request.name]
            request.handler.send_file(stored, request, ignore_range=True)

        self.on("cdn", lambda r: True, whole)
        self.assert_fetched(self.fetch())

    def test_then_it_is_converted_and_verified(self):
        self.fetch("--convert", os.path.join(self.work, "m.gguf"), "--verify")
        # The tiny model has files beside those of a release, which converting does not mind.
        self.assertTrue(os.path.getsize(os.path.join(self.work, "m.gguf")) > 1 << 20)

    def test_two_at_once_do_not_meet(self):
        gate = []
        self.on("cdn", lambda r: True, lambda r, n: gate.append(self.hub.closing.wait(0.2)) or False)
        first = self.start()
        self.assertTrue(self.wait_until(lambda: os.path.isdir(os.path.join(self.model, ".cache/cleffa/incomplete"))))
        code, _, err = self.fetch()
        first.communicate(timeout=60)
        self.assertEqual(first.returncode, 0)
        if code != 0:
            self.assertIn("another fetch is at work", err)
        self.assert_fetched()

    def wait_until(self, claim):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if claim():
                return True
            self.hub.closing.wait(0.005)
        return False


class Resume(FetchTest):
    def test_killed_anywhere_it_goes_on(self):
        """SIGKILL after a random number of bytes, again and again: what is placed is whole, and little comes twice."""
        seed = int(os.environ.get("CLEF_TEST_SEED", "7"))
        chance = random.Random(seed)
        total = sum(os.path.getsize(path) for path in self.files.values())
        kills, sent = 0, 0
        for _ in range(12):
            self.hub.reset()
            process = self.start("--connections", "3")
            if not self.hub.wait_for_bytes(chance.randrange(1, total // 4), timeout=10):
                break
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += process.returncode == -signal.SIGKILL
            sent += self.hub.bytes_sent
            self.assert_no_model()
            if not os.path.isdir(os.path.join(self.model, ".cache/cleffa/incomplete")) and process.returncode == 0:
                break
        self.hub.reset()
        self.assert_fetched(self.fetch())
        self.assertGreater(kills, 2, f"seed {seed}")
        # What a kill costs: 4 MiB of each connection that no journal told of, and what the sockets held (at most 8 MiB
        # of each, sent and never read).
        self.assertLess(sent + self.hub.bytes_sent, total + kills * 3 * (12 << 20), f"seed {seed}")

    def test_a_resumed_file_is_hashed_from_its_start(self):
        """Bytes of an earlier run that went bad on the disk are found, and fetched anew."""
        stored = self.hub.repos[REPO][COMMIT]["notes/bytes.bin"]
        self.on("cdn", lambda r: r.name == stored.sha256,
                lambda r, n: r.handler.send_file(stored, r, limit=30 << 20) if n == 1 else r.handler.drop())
        self.assert_refused(self.fetch("--connections", "1", "--tries", "2"))
        incomplete = os.path.join(self.model, ".cache/cleffa/incomplete")
        part = [n for n in os.listdir(incomplete) if n.startswith(stored.sha256) and n.endswith(".part")]
        self.assertEqual(len(part), 1)
        with open(os.path.join(incomplete, part[0]), "r+b") as file:
            file.seek(1 << 20)
            file.write(b"xxxx")
        self.hub.reset()
        result = self.fetch()
        self.assert_fetched(result)
        self.assertIn("after bytes of an earlier run; fetched anew", result[2])

    def test_what_came_before_a_failure_is_kept(self):
        stored = self.hub.repos[REPO][COMMIT]["notes/bytes.bin"]
        self.on("cdn", lambda r: r.name == stored.sha256,
                lambda r, n: r.handler.send_file(stored, r, limit=25 << 20) if n == 1 else r.handler.drop())
        self.assert_refused(self.fetch("--connections", "1", "--tries", "2"), "notes/bytes.bin")
        self.hub.reset()
        self.assert_fetched(self.fetch())
        self.assertLess(self.hub.bytes_sent, EXTRA_BYTES)

    def test_a_damaged_journal_costs_a_new_start_only(self):
        stored = self.hub.repos[REPO][COMMIT]["notes/bytes.bin"]
        self.on("cdn", lambda r: r.name == stored.sha256,
                lambda r, n: r.handler.send_file(stored, r, limit=25 << 20) if n == 1 else r.handler.drop())
        incomplete = os.path.join(self.model, ".cache/cleffa/incomplete")
        for text in (b"", b"nonsense\n", b"cleffa partial 1 41943040 " + stored.sha256.encode() + b"\n0 99999999999\n",
                     b"cleffa partial 1 41943040 " + stored.sha256.encode() + b"\n0 419430"):
            self.fetch("--connections", "1", "--tries", "1")
            journal = [n for n in os.listdir(incomplete) if n.startswith(stored.sha256) and n.endswith(".done")]
            with open(os.path.join(incomplete, journal[0]), "wb") as file:
                file.write(text)
        self.hub.reset()
        self.assert_fetched(self.fetch())


class Faults(FetchTest):
    def test_passing_statuses_are_tried_again(self):
        for status in (429, 500, 502, 503, 504):
            with self.subTest(status=status):
                shutil.rmtree(self.model, ignore_errors=True)
                picked = self.on("cdn", lambda r: True, lambda r, n: r.handler.send(status) if n <= 2 else False)
                result = self.fetch()
                self.assert_fetched(result)
                self.assertGreater(len(picked), 2)
                self.assertIn(f"HTTP {status}", result[2])
                self.assertIn("trying again in", result[2])

    def test_retry_after_is_honoured(self):
        times = []

        def answer(request, number):
            times.append(time.monotonic())
            return request.handler.send(429, Retry_After="1") if number == 1 else False

        self.on("hub", lambda r: "/tree/" in r.path, answer)
        self.assert_fetched(self.fetch())
        self.assertGreaterEqual(times[1] - times[0], 1.0)

    def test_a_wait_beyond_reason_ends_it(self):
        self.on("hub", lambda r: "/tree/" in r.path, lambda r, n: r.handler.send(429, Retry_After="86400"))
        self.assert_refused(self.fetch(), "too many requests")

    def test_a_server_that_stays_broken_ends_it(self):
        for status in (429, 500):
            with self.subTest(status=status):
                shutil.rmtree(self.model, ignore_errors=True)
                picked = self.on("cdn", lambda r: True, lambda r, n: r.handler.send(status))
                self.assert_refused(self.fetch("--connections", "1", "--tries", "3"), f"HTTP {status}")
                self.assertEqual(len(picked), 3)

    def test_lasting_statuses_end_it_at_once(self):
        for status, words in ((401, "token"), (403, "access is refused"), (404, "not found"), (418, "unexpected")):
            with self.subTest(status=status):
                shutil.rmtree(self.model, ignore_errors=True)
                picked = self.on("hub", lambda r: r.path.endswith("/config.json"), lambda r, n: r.handler.send(status))
                self.assert_refused(self.fetch(), "config.json", f"HTTP {status}", words)
                self.assertEqual(len(picked), 1)

    def test_what_a_server_says_cannot_reach_the_terminal_raw(self):
        self.on("hub", lambda r: "/tree/" in r.path,
                lambda r, n: r.handler.send(404, b'{"error":"no\\u001b[2Jno"}'))
        result = self.fetch()
        self.assertNotIn("\x1b", result[2])
        self.assertIn("no [2Jno", result[2])

    def test_unknown_names_are_told(self):
        code, _, err = self.fetch(model="Some-Org/nothing")
        self.assertEqual(code, 1)
        self.assertIn("no such public repository", err)
        self.assert_refused(self.fetch("--revision", "v9"), "no such revision")
        code, _, err = self.fetch(model="../../etc")
        self.assertEqual(code, 2)

    def test_a_truncated_file_is_told(self):
        """The CDN has less than the hub said."""
        stored = self.hub.repos[REPO][COMMIT]["notes/bytes.bin"]
        self.on("cdn", lambda r: r.name == stored.sha256,
                lambda r, n: r.handler.send_file(stored, r, shown_size=stored.size - 1000))
        self.assert_refused(self.fetch(), "notes/bytes.bin", str(stored.size))

    def test_a_changed_file_is_told(self):
        """The CDN has other bytes of the same length."""
        stored = self.hub.repos[REPO][COMMIT]["notes/bytes.bin"]
        other = os.path.join(self.work, "other")
        with open(stored.path, "rb") as file:
            data = bytearray(file.read())
        data[12345] ^= 1
        with open(other, "wb") as file:
            file.write(data)

        def swapped(request, _):
            changed = type(stored)(other)
            request.handler.send_file(changed, request)

        self.on("cdn", lambda r: r.name == stored.sha256, swapped)
        result = self.fetch()
        self.assert_refused(result, "notes/bytes.bin: expected sha256", stored.sha256)
        self.hub.reset()
        self.assert_fetched(self.fetch())

    def test_a_hub_that_offers_another_file_is_told_before_a_byte(self):
        for field, value in (("X_Repo_Commit", "f" * 40), ("X_Linked_Size", "7"), ("X_Linked_Etag", '"' + "0" * 64 + '"')):
            with self.subTest(field=field):
                shutil.rmtree(self.model, ignore_errors=True)
                stored = self.hub.repos[REPO][COMMIT]["notes/bytes.bin"]
                head = {"X_Repo_Commit": COMMIT, "X_Linked_Size": stored.size, "X_Linked_Etag": f'"{stored.sha256}"'}
                head[field] = value
                self.on("hub", lambda r: r.path.endswith("/bytes.bin"), lambda r, n: r.handler.send(
                    302, Location=f"{self.hub.cdn_url}/blobs/{stored.sha256}?X-Signature=first", **head))
                self.assert_refused(self.fetch(), "the hub offers another file")
                self.assertFalse([r for r in self.hub.requests if r.server == "cdn" and r.name == stored.sha256])

    def test_the_same_revision_with_other_digests_is_refused(self):
        """What was pinned on first use stays pinned."""
        self.assert_fetched(self.fetch())
        tree = b'[{"type":"file","oid":"' + b"1" * 40 + b'","size":5,"path":"config.json"}]'
        self.on("hub", lambda r: "/tree/" in r.path, lambda r, n: r.handler.send(200, tree))
        code, _, err = self.fetch()
        self.assertEqual(code, 1)
        self.assertIn("is not what was pinned", err)

    def test_an_expired_address_is_renewed(self):
        self.on("cdn", lambda r: True, lambda r, n: setattr(self.hub, "signature", "second") or False if n == 2 else False)
        self.assert_fetched(self.fetch("--connections", "1"))

    def test_redirects_without_end_are_told(self):
        self.on("hub", lambda r: r.path.startswith("/loop") or r.path.endswith("/config.json"),
                lambda r, n: r.handler.send(302, Location="/loop"))
        self.assert_refused(self.fetch(), "more than 10 redirects")

    def test_redirects_to_other_schemes_are_not_followed(self):
        for location in ("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", "http://"):
            with self.subTest(location=location):
                shutil.rmtree(self.model, ignore_errors=True)
                self.on("hub", lambda r: r.path.endswith("/config.json"),
                        lambda r, n: r.handler.send(302, Location=location))
                self.assert_refused(self.fetch("--tries", "1"), "redirect")

    def test_dropped_connections_are_taken_up_where_they_broke(self):
        self.on("cdn", lambda r: True,
                lambda r, n: r.handler.send_file(self.hub.blobs[r.name], r, limit=3 << 20) if n <= 4 else False)
        self.assert_fetched(self.fetch())
        total = sum(stored.size for stored in self.hub.repos[REPO][COMMIT].values())
        self.assertLess(self.hub.bytes_sent, total + (16 << 20))

    def test_a_stalled_peer_is_left(self):
        def stall(request, number):
            if number > 1:
                return False
            handler = request.handler
            handler.send_response(206)
            first, last = request.range.removeprefix("bytes=").split("-") if request.range else (0, 0)
            size = self.hub.blobs[request.name].size
            end = int(last) + 1 if request.range else size
            handler.send_header("Content-Range", f"bytes {first}-{end - 1}/{size}")
            handler.send_header("Content-Length", str(end - int(first)))
            handler.end_headers()
            handler.wfile.flush()
            self.hub.closing.wait(5)  # longer than --stall-timeout
            handler.close_connection = True

        picked = self.on("cdn", lambda r: True, stall)
        result = self.fetch()
        self.assert_fetched(result)
        self.assertGreater(len(picked), 1)
        self.assertIn("trying again", result[2])

    def test_a_slow_peer_is_waited_for(self):
        """Slow, but not stalled: 1 MiB or so at a time."""
        self.hub.pace = lambda hub: hub.closing.wait(0.002)
        self.assert_fetched(self.fetch())

    def test_a_list_that_is_none_is_told(self):
        for body, words in ((b"<html>", "list of files"), (b'{"a":1}', "expected a list"),
                            (b'[{"type":"file","path":"../x","size":1,"oid":"' + b"0" * 40 + b'"}]', "not a path below"),
                            (b'[{"type":"file","path":"/x","size":1,"oid":"' + b"0" * 40 + b'"}]', "not a path below"),
                            (b'[{"type":"file","path":"x","size":-1,"oid":"' + b"0" * 40 + b'"}]', "size"),
                            (b'[{"type":"file","path":"x","size":1,"oid":"zz"}]', "oid"), (b"[]", "has no files")):
            with self.subTest(body=body):
                self.on("hub", lambda r: "/tree/" in r.path, lambda r, n: r.handler.send(200, body))
                self.assert_refused(self.fetch(), words)

    def test_an_answer_without_end_is_cut(self):
        def endless(request, _):
            request.handler.send_response(200)
            request.handler.end_headers()
            block = b" " * (1 << 20)
            for _ in range(64):
                request.handler.wfile.write(block)
            request.handler.close_connection = True

        self.on("hub", lambda r: "/tree/" in r.path, endless)
        self.assert_refused(self.fetch(), "an answer of more than")

    def test_no_server_at_all_is_told(self):
        code, _, err = self.fetch("--tries", "2", environment=self.environment(HF_ENDPOINT="http://127.0.0.1:9"))
        self.assertEqual(code, 1)
        self.assertIn("127.0.0.1:9", err)
        code, _, err = self.fetch(environment=self.environment(HF_ENDPOINT="ftp://hub"))
        self.assertEqual(code, 2)

    def test_offline_means_offline(self):
        code, _, err = self.fetch(environment=self.environment(HF_HUB_OFFLINE="1"))
        self.assertEqual(code, 1)
        self.assertIn("HF_HUB_OFFLINE", err)
        self.assertEqual(self.hub.requests, [])


class Token(FetchTest):
    def test_the_token_reaches_the_hub_and_no_one_else(self):
        self.hub.tokens[REPO] = TOKEN
        for how in ("variable", "flag", "file"):
            with self.subTest(how=how):
                shutil.rmtree(self.model, ignore_errors=True)
                self.hub.reset()
                environment, arguments = self.environment(), []
                if how == "variable":
                    environment["HF_TOKEN"] = TOKEN
                elif how == "flag":
                    arguments = ["--token", TOKEN]
                else:
                    os.makedirs(os.path.join(self.work, "hf"), exist_ok=True)
                    with open(os.path.join(self.work, "hf/token"), "w") as file:
                        file.write(TOKEN + "\n")
                    environment["HF_HOME"] = os.path.join(self.work, "hf")
                self.assert_fetched(self.fetch(*arguments, environment=environment))
                for request in self.hub.requests:
                    given = request.headers.get("Authorization")
                    self.assertEqual(given, f"Bearer {TOKEN}" if request.server == "hub" else None, request.path)

    def test_without_or_with_a_wrong_token_it_is_told(self):
        self.hub.tokens[REPO] = TOKEN
        self.assert_refused(self.fetch(), "HTTP 401", "give a token")
        self.assert_refused(self.fetch(environment=self.environment(HF_TOKEN="hf_other")), "HTTP 403",
                            "has not been granted access")

    def test_a_token_is_not_sent_unencrypted_beyond_this_machine(self):
        code, _, err = self.fetch(environment=self.environment(HF_TOKEN=TOKEN, HF_ENDPOINT="http://hub.example"))
        self.assertEqual(code, 2)
        self.assertIn("unencrypted", err)

    def test_a_second_page_elsewhere_does_not_get_it(self):
        self.hub.tokens[REPO] = TOKEN
        page = b'[{"type":"file","oid":"' + b"1" * 40 + b'","size":5,"path":"config.json"}]'
        self.on("hub", lambda r: "/tree/" in r.path,
                lambda r, n: r.handler.send(200, page, Link=f'<{self.hub.cdn_url}/more>; rel="next"'))
        self.assert_refused(self.fetch(environment=self.environment(HF_TOKEN=TOKEN)), "on another host")
        self.assertFalse([r for r in self.hub.requests if r.server == "cdn"])

    def test_a_proxy_of_the_environment_is_used(self):
        environment = self.environment(http_proxy="http://127.0.0.1:9", HF_ENDPOINT="http://hub.example")
        code, _, err = self.fetch("--tries", "1", environment=environment)
        self.assertEqual(code, 1)
        self.assertIn("port 9", err)
        environment["no_proxy"] = "127.0.0.1"
        environment["HF_ENDPOINT"] = self.hub.url
        self.assert_fetched(self.fetch(environment=environment))


class Tls(FetchTest):
    @classmethod
    def setUpClass(cls):
        cls.tls = tempfile.mkdtemp(prefix="clef-tls-")
        key, cert = os.path.join(cls.tls, "key.pem"), os.path.join(cls.tls, "cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost"], check=True, capture_output=True)
        cls.certificate = os.path.join(cls.tls, "both.pem")
        with open(cls.certificate, "w") as both:
            for path in (key, cert):
                with open(path) as file:
                    both.write(file.read())
        cls.ca = cert
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.tls, ignore_errors=True)

    def test_a_trusted_certificate_is_accepted(self):
        self.assert_fetched(self.fetch(environment=self.environment(SSL_CERT_FILE=self.ca)))

    def test_an_unknown_certificate_is_refused_at_once(self):
        result = self.fetch()
        self.assertEqual(result[0], 1)
        self.assertIn("certificate", result[2])
        self.assertNotIn("trying again", result[2])
        self.assertEqual(self.hub.requests, [])

    def test_a_redirect_from_https_to_http_is_refused(self):
        self.on("hub", lambda r: r.path.endswith("/config.json"),
                lambda r, n: r.handler.send(302, Location="http://127.0.0.1:9/x"))
        self.assert_refused(self.fetch(environment=self.environment(SSL_CERT_FILE=self.ca)), "not encrypted")


class Space(FetchTest):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            print("SKIPPED: a full disk needs root, for a small file system of its own", file=sys.stderr)
            self.skipTest("needs root to mount a small file system")
        self.mount = os.path.join(self.work, "small")
        os.mkdir(self.mount)

    def tearDown(self):
        subprocess.run(["umount", self.mount], capture_output=True)
        super().tearDown()

    def make_room(self, mebibytes):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", self.mount],
                              capture_output=True, text=True)
        if done.returncode != 0:
            print(f"SKIPPED: no tmpfs may be mounted here: {done.stderr.strip()}", file=sys.stderr)
            self.skipTest("cannot mount")
        self.model = os.path.join(self.mount, "model")

    def test_too_little_room_is_told_before_a_byte(self):
        self.make_room(20)
        self.assert_refused(self.fetch(), "GB needed", "GB free")
        self.assertFalse([r for r in self.hub.requests if r.server == "cdn"])

    def test_a_disk_that_fills_meanwhile_is_told_and_gone_on_with(self):
        total = sum(os.path.getsize(path) for path in self.files.values())
        self.make_room((total >> 20) + 24)
        hog = os.path.join(self.mount, "hog")
        filled = []

        def fill(request, number):
            if not filled:
                filled.append(True)
                free = os.statvfs(self.mount)
                with open(hog, "wb") as file:
                    file.write(b"\0" * (free.f_bavail * free.f_bsize - (8 << 20)))
            return False

        self.on("cdn", lambda r: True, fill)
        self.assert_refused(self.fetch(), "No space left on device", "free some space")
        os.remove(hog)
        self.hub.reset()
        self.assert_fetched(self.fetch())


class Known(unittest.TestCase):
    def test_digests_are_those_of_git_and_of_the_release(self):
        """Facts from outside: git's digest of an empty blob, and the manifest's own arithmetic."""
        self.assertEqual(git_sha1(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
