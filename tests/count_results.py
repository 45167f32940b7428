#!/usr/bin/env python3
"""Prints how many tests of a Meson testlog.json passed, failed and were skipped."""
import json
import sys

PASSED, SKIPPED = ("OK", "EXPECTEDFAIL"), ("SKIP",)

with open(sys.argv[1], encoding="utf-8") as log:
    results = [json.loads(line)["result"] for line in log]
passed = sum(r in PASSED for r in results)
skipped = sum(r in SKIPPED for r in results)
print(passed, len(results) - passed - skipped, skipped)
