"""How fast clef-tool fetch takes files from a hub on this machine, and what it costs. Asserts nothing.

    throughput.py CLEF_TOOL [--files N] [--mebibytes N] [--connections N] [--folder DIR]

Give it the machine for itself (`chrt -r 5 python3 ...` where others are at work), and a folder in memory where the disk
is not meant to be measured.
"""
import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hub_server import Hub  # noqa: E402


def cpu_seconds(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def peak_kibibytes(pid):
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--files", type=int, default=2)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--folder", default="/dev/shm")
    options = parser.parse_args()
    root = tempfile.mkdtemp(dir=options.folder)
    try:
        files = {}
        block = os.urandom((1 << 20) - 8)
        for i in range(options.files):
            path = os.path.join(root, str(i))
            with open(path, "wb") as file:
                for j in range(options.mebibytes):
                    file.write((j << 32 | i).to_bytes(8, "little") + block)
            files[f"model-{i}.safetensors"] = path
        hub = Hub()
        hub.add_repo("a/b", "0" * 40, files)
        total = options.files * options.mebibytes << 20
        server = cpu_seconds(resource.RUSAGE_SELF)
        start = time.monotonic()
        process = subprocess.Popen([options.tool, "fetch", "a/b", "--dir", os.path.join(root, "m"), "--connections",
                                    str(options.connections)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={"HF_ENDPOINT": hub.url, "HOME": root, "PATH": os.environ["PATH"]})
        peak = 0
        while process.poll() is None:
            try:
                peak = max(peak, peak_kibibytes(process.pid))
            except OSError:
                pass
            hub.closing.wait(0.02)
        seconds = time.monotonic() - start
        server = cpu_seconds(resource.RUSAGE_SELF) - server
        client = cpu_seconds(resource.RUSAGE_CHILDREN)
        print(f"{total / 1e9:.2f} GB in {seconds:.2f} s: {total / seconds / 1e9:.2f} GB/s; memory {peak / 1024:.0f} MiB; "
              f"CPU {client / total * 1e9:.2f} ns a byte, the server {server / total * 1e9:.2f}")
        hub.close()
        return process.returncode
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
