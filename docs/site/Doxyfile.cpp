INPUT = bindings/cpp/quire_cpp
FILE_PATTERNS = *.hpp
OPTIMIZE_OUTPUT_FOR_C = NO
INPUT_FILTER = docs/site/doxygen_filter_cpp.sh
STRIP_FROM_PATH = bindings/cpp
EXTRACT_ALL = YES
EXTENSION_MAPPING = hpp=C++
