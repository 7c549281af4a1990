"""Validates a SARIF log with SARIF's own schema."""

import json

import jsonschema


def validate(schema, log):
    """Fails if the log breaks the schema, or has no result."""
    schema, log = json.loads(schema.read_text()), json.loads(log)
    jsonschema.validators.validator_for(schema)(schema).validate(log)
    results = log["runs"][0]["results"]
    rules = {result["ruleId"] for result in results}
    assert rules, "no result"
    print(f"SARIF: {len(results)} results of {len(rules)} rules, valid by the schema")
