"""What `--json` prints, one module a subject: the documented, versioned schema for other programs.

`vplan schema` prints it as JSON Schema. Within one `schema_version` fields are only added.
Sizes are bytes, times seconds, rates tokens per second.
"""
