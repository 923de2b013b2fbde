// Package inuse tells how many bytes malloc has given out: for the tests, which look for what was not given back.
package inuse

// #include <malloc.h>
import "C"

// Bytes are those of C, of the library's C++ as well.
func Bytes() int64 {
	info := C.mallinfo2()
	return int64(info.uordblks) + int64(info.hblkhd)
}
