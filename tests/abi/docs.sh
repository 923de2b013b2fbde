#!/bin/bash
# docs.sh SOURCE: every exported function has its words, and a header from which one word was taken is refused.
set -u
source=$1
"$source/scripts/doc_tags.sh" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for tag in 'Thread: ' 'Blocking: ' 'Errors: ' 'owned' 'Frozen' 'Descriptor'; do
  rm -rf "$work/include"
  cp -r "$source/abi/include" "$work/include"
  header=$(grep -l -- "$tag" "$work"/include/quire/{cache,memory,ops}.h | head -1)
  sed -i "s/$tag/ /" "$header"
  if "$source/scripts/doc_tags.sh" "$work/include" >"$work/log"; then
    echo "FAILED: '$tag' was taken out of $(basename "$header") and nobody noticed"
    exit 1
  fi
done
echo "six words taken out, six refused"
