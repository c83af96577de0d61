"""The demo model's figures on the hand-written requests, measured with the program, against those that models/report.json records.

    heldout_test.py CLEF MODEL REPORT
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools" / "demo_model"))
import heldout  # noqa: E402

# An answer on the edge of two options may fall to the other side in other arithmetic: one question of a hundred.
TOLERANCE = 0.011


def answers(clef, model, cases):
    """[{question id: [(option id, probability)]}], in the order of the prompt's options."""
    text = "".join(json.dumps(request) + "\n" for request, _ in cases)
    run = subprocess.run([clef, "-m", model, "--format", "json", "--batch", "16"], input=text, capture_output=True, text=True, check=True)
    found = []
    for line in run.stdout.splitlines():
        answer = json.loads(line)["answers"]
        found.append({q: [("true", a["noul"]), ("false", 1 - a["noul"])] if a["type"] == "noul" else list(a["probabilities"].items()) for q, a in answer.items()})
    return found


def main():
    clef, model, report = sys.argv[1:4]
    recorded = json.loads(Path(report).read_text())
    failures = []
    for name in ("dev", "heldout", "freestyle"):
        cases = heldout.read(HERE / f"{name}.txt")
        given = {id(request): a for (request, _), a in zip(cases, answers(clef, model, cases))}
        figures, _ = heldout.measure(cases, lambda request: given[id(request)])
        print(f"{name}: {figures['requests']} requests, {figures['questions']} questions: "
              f"yes or no {figures['noul']:.3f}, choice {figures['choice']:.3f}, both {figures['noul_and_choice']:.3f}, "
              f"score error {figures['score_error']:.3f} levels, calibration error {figures['ece']:.3f}")
        for figure in ("requests", "questions", "noul", "choice", "noul_and_choice", "score_error", "ece"):
            if abs(figures[figure] - recorded[name][figure]) > TOLERANCE:
                failures.append(f"{name}: {figure}: expected {recorded[name][figure]}, got {figures[figure]}")
    print("\n".join(failures))
    sys.exit(1 if failures else 0)


main()
