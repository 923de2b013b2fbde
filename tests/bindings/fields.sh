#!/bin/bash
# fields.sh LANGUAGE GOLDEN HEADERS FOLDER EXCEPTIONS: every field of every struct that the ABI takes or gives, and every flag and number
# that it names, can be said or read in a binding. GOLDEN: abi.golden. HEADERS: the folder of the public headers. FOLDER: the binding's
# sources. EXCEPTIONS: lines "LANGUAGE NAME reason", NAME being struct.field, struct.* or a constant; one of a field or constant that is not
# needed fails, too.
#
# A field counts where an item (a function, a struct, a macro's block) that names the struct sets or reads the field; for whole structs that
# are re-exported (Rust: `pub use sys::quire_x`) or laid out byte by byte (Go: the table of types_test.go), all of them count.
set -u
language=$1 golden=$2 headers=$3 folder=$4 exceptions=$5
sources() { find "$folder" -name "*.$language" ! -path '*/tests/*' ! -path '*/benches/*' ! -name '*_test.go' | sort; }
case $language in
  rs) starts='^(    )?(pub(\(crate\))? )?(const )?(unsafe )?(extern "C" )?fn |^numbers! \{|^[a-z]+! \{' whole='s/^(    )?pub use sys::(quire_[a-z0-9_]+).*/\2/p' ;;
  go) starts='^(func|type|static|typedef|var|const) ' whole='' ;;
  *) echo "FAILED: no sources of $language are known"; exit 1 ;;
esac

known=$(mktemp) words=$(mktemp)
trap 'rm -f "$known" "$words"' EXIT
{
  # "struct word" of every item, comments left out.
  sources | xargs awk -v starts="$starts" -v rust="$([ "$language" = rs ] && echo 1)" '
    function flush(  s, w) { for (s in structs) for (w in words) print s " " w; delete structs; delete words }
    FNR == 1 { flush() }
    { sub(/\/\/.*/, "") }
    $0 ~ starts { flush() }
    { line = $0
      while (match(line, /[A-Za-z_][A-Za-z0-9_]*/)) {
        word = substr(line, RSTART, RLENGTH); before = RSTART > 1 ? substr(line, RSTART - 1, 1) : last
        line = substr(line, RSTART + RLENGTH); last = substr(word, length(word), 1)
        if (before == "." || before == ">" || line ~ (rust ? "^ *([:,)]([^:]|$)|$)" : "^ *:[^=]")) words[word] = 1
        if (word ~ /^quire_[a-z0-9_]+$/) structs[word] = 1
      } }
    END { flush() }'
  if [ "$language" = rs ]; then
    sources | xargs sed -nE "$whole" | sed 's/$/ */'
  else
    find "$folder" -name types_test.go -exec grep -ohE '"quire_[a-z0-9_]+": [A-Z]' {} + | sed -E 's/"([a-z0-9_]+)".*/\1 */'
  fi
} | sort -u >"$known"

failed=0
check() { # NAME FOUND
  if grep -qE "^$language (${1//./\\.}|${1%.*}\\.\\*) ." "$exceptions"; then
    if [ "$2" = yes ] && grep -q "^$language $1 ." "$exceptions"; then
      echo "FAILED: $1 can be said in $language: take it off the exceptions"
      failed=1
    fi
  elif [ "$2" = no ]; then
    echo "FAILED: $1 cannot be said in $language"
    failed=1
  fi
}

sources | xargs sed 's/\/\/.*//' | grep -oE 'QUIRE_[A-Z0-9_]+' | sort -u >"$words"
# What modules and hosts say to each other is no engine's business.
modules=" $(cat "$headers/driver.h" "$headers/sdk/"*.h | sed -nE 's/^typedef struct (quire_[a-z0-9_]+).*/\1/p' | tr '\n' ' ') "
count=0
while read -r struct field; do
  [ "${modules/ $struct /}" = "$modules" ] || continue
  case $field in struct_size | header_abi | next | reserved* | log_user | alloc_user | clock_user | num_state_tensors) continue ;; esac
  count=$((count + 1))
  found=no
  grep -qxE "$struct (\*|$field|${field}_|_$field)" "$known" && found=yes
  check "$struct.$field" $found
done < <(awk '/^struct / { name = $2 } /^[a-z]/ && !/^struct / { name = "" } /^  [0-9]/ && name != "" { print name, $3 }' "$golden")

# What engines say: the flags and numbers of all headers but driver.h, without limits of the text itself.
for constant in $(for header in "$headers"/*.h; do [ "${header##*/}" = driver.h ] || cat "$header"; done |
  sed -nE 's/^#define (QUIRE_[A-Z0-9_]+) +[^ ].*/\1/p; s/^  (QUIRE_[A-Z0-9_]+) = .*/\1/p' | grep -vE '_FORCE32$|_H_$|^QUIRE_API$|_ABI_' | sort -u); do
  count=$((count + 1))
  found=no
  grep -qx "$constant" "$words" && found=yes
  check "$constant" $found
done
while read -r of name reason; do
  [ "$of" = "$language" ] || continue
  [ -n "$reason" ] || { echo "FAILED: the exception $name has no reason"; failed=1; }
  grep -qw -- "${name%.*}" "$golden" "$headers"/*.h || { echo "FAILED: the exception $name names nothing of the headers"; failed=1; }
done <"$exceptions"
[ $count -gt 500 ] || { echo "FAILED: only $count names were looked for"; failed=1; }
[ $failed -eq 0 ] && echo "$count fields, flags and numbers: all but $(grep -c "^$language " "$exceptions") exceptions can be said in $language"
exit $failed
