#!/bin/sh
# Writes testdata/models anew: models by models, expected logits by ref64.
# Needs Go and Python with numpy (Debian: python3-numpy).
set -eu
cd "$(dirname "$0")/../../.."
python=${PYTHON:-python3}
go run ./testdata/gen/models
for json in testdata/models/*.json; do
	name=${json%.json}
	tokens=$("$python" -c 'import json, sys; print(",".join(map(str, json.load(open(sys.argv[1]))["tokens"])))' "$json")
	"$python" testdata/gen/ref64/ref64.py "$name.gguf" --tokens "$tokens" -o "$name.logits.bin"
done
