# SPDX-License-Identifier: Apache-2.0
"""docs/verification.json: what the full tier found, where and when, so that nobody takes a check that was not run for passed."""
import datetime
import json
import subprocess

from runner import ROOT

FILE = ROOT / "docs" / "verification.json"


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT).stdout.strip()


def load():
    return {entry["check"]: entry for entry in json.loads(FILE.read_text())} if FILE.exists() else {}


def record(check, result, detail=""):
    """A dirty tree is said so: its result belongs to no commit."""
    entries = load()
    dirty = "+changes" if git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/verification.json") else ""
    entries[check] = {"check": check, "commit": git("rev-parse", "--short=12", "HEAD") + dirty,
                      "date": datetime.date.today().isoformat(), "result": result, "detail": detail}
    FILE.write_text(json.dumps(list(entries.values()), indent=1) + "\n")


def age(commit):
    count = git("rev-list", "--count", f"{commit.split('+')[0]}..HEAD")
    return f"{count} commits ago" if count.isdigit() else "at a commit that is not in this clone"


def show(checks):
    print("the full tier (./dev ci), as it last ran:")
    entries = load()
    for check in checks:
        entry = entries.get(check)
        if entry is None:
            print(f"    {check:<40} never run")
        else:
            print(f"    {check:<40} {entry['result']:<8} {age(entry['commit'])} ({entry['commit']}, {entry['date']})"
                  + (f": {entry['detail']}" if entry.get("detail") else ""))
