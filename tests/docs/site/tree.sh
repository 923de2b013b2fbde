# tree SOURCE FOLDER: a copy of the tree without what is built, of links to its files. Sourced by the tests of documents.
tree() {
  rm -rf "$2"
  mkdir -p "$2"
  find "$1" -mindepth 1 -maxdepth 1 ! -name .git ! -name 'build*' -exec cp -rs -t "$2" {} +
}
# change SOURCE TREE FILE SED: changes a file of the copy; it must change.
change() {
  rm "$2/$3"
  sed "$4" "$1/$3" >"$2/$3"
  cmp -s "$1/$3" "$2/$3" && { echo "FAILED: the seeded break '$4' changed nothing in $3"; exit 1; }
}
