"""scripts/bootstrap on a Debian where some programs came from elsewhere: what is there is not installed again.

    python3 bootstrap_test.py SOURCE_DIR
"""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

SOURCE = sys.argv.pop(1)
TOOLS = ["bash", "env", "dirname", "cat", "comm", "sort", "sed", "tr"]


class Bootstrap(unittest.TestCase):
    """Runs it with a PATH of its own: the tools it uses, and in place of dpkg-query and apt-get what tells of a system and writes down what is asked."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="clef-bootstrap-")
        self.addCleanup(shutil.rmtree, self.folder)
        for tool in TOOLS:
            os.symlink(shutil.which(tool), os.path.join(self.folder, tool))
        self.program("uname", "echo Linux")
        self.program("id", "echo 0")
        self.program("apt-get", f'echo "$*" >> {self.folder}/asked')

    def program(self, name, text=""):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\n{text}\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def asked_for(self, installed, *options):
        """The packages that apt-get is to install where dpkg knows those `installed`."""
        lines = "".join(f"installed {name}\\n" for name in installed)
        self.program("dpkg-query", f"printf '{lines}'")
        done = subprocess.run(["bash", os.path.join(SOURCE, "scripts", "bootstrap"), *options],
                              env={"PATH": self.folder}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        asked = os.path.join(self.folder, "asked")
        if not os.path.exists(asked):
            return set()
        with open(asked, encoding="utf-8") as file:
            return {word for line in file if line.startswith("install") for word in line.split()[1:] if word[0] != "-"}

    def names(self, which):
        with open(os.path.join(SOURCE, "scripts", "packages", f"debian{which}.txt"), encoding="utf-8") as file:
            return file.read().split()

    def test_what_tests_use_and_is_missing_is_installed(self):
        self.assertEqual(self.asked_for(self.names(""), "--tests"), set(self.names("-tests")))

    def test_a_program_from_elsewhere_serves(self):
        self.program("npm")
        self.program("nodejs")
        self.assertEqual(self.asked_for(self.names(""), "--tests"), set(self.names("-tests")) - {"npm", "nodejs"})

    def test_what_the_build_needs_is_installed_as_packages(self):
        self.program("cmake")
        self.assertEqual(self.asked_for([n for n in self.names("") if n != "cmake"]), {"cmake"})

    def test_with_nothing_missing_nobody_is_asked(self):
        self.assertEqual(self.asked_for(self.names("")), set())


if __name__ == "__main__":
    unittest.main()
