"""Golden records of the demo model from the reference's decisions (tools of the reference write them; see README.md).

    python3 goldens.py reference.jsonl ../../tests/golden/demo.jsonl
"""

from __future__ import annotations

import json
import sys


def main():
    with open(sys.argv[1]) as lines, open(sys.argv[2], "w") as out:
        for number, line in enumerate(lines):
            found = json.loads(line)
            request = found.pop("request")
            record = {"name": f"demo {number}", "request_text": json.dumps(request, ensure_ascii=False), **found}
            out.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
