"""Holds a SARIF log to SARIF's own schema.

Usage: sarif.py SCHEMA LOG. Fails where the log breaks the schema, or has no result.
"""
import json
import sys
from pathlib import Path

import jsonschema

schema, log = (json.loads(Path(path).read_text()) for path in sys.argv[1:])
jsonschema.validators.validator_for(schema)(schema).validate(log)
results = log["runs"][0]["results"]
rules = {result["ruleId"] for result in results}
assert rules, "no result"
print(f"SARIF: {len(results)} results of {len(rules)} rules, as the schema wants them")
