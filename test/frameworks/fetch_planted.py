"""Runs `main.py fetch` of an app, with the package's download of a file replaced: it copies planted weights.

    fetch_planted.py APP WEIGHTS

Prints the addresses that would have been downloaded.
"""

import runpy
import shutil
import sys
from pathlib import Path

import totalsegmentator.libs

app, planted = map(Path, sys.argv[1:])


def copy(url, directory):
    print(url)
    name = Path(url).stem
    shutil.copytree(planted / name, Path(directory) / name)


totalsegmentator.libs.download_url_and_unpack = copy
sys.argv = [str(app / "main.py"), "fetch"]
sys.path.insert(0, str(app))
runpy.run_path(sys.argv[0], run_name="__main__")
