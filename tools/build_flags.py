"""Make `planner/engine/data/flags.json` and `options.json` anew: the options of each vLLM release.

    python tools/build_flags.py FOLDER

FOLDER holds one `<release>.json` for each release, as `tools/vllm_parser.py` prints it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from release_tables import compress, table_of, write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    files = parser.parse_args().folder.glob("*.json")
    tables = [table_of(json.loads(path.read_text())) for path in files]
    write(tables)
    print(f"{len(tables)} releases, {len(compress(tables)[0]['flags'])} option strings")


if __name__ == "__main__":
    main()
