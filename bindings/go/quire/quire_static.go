//go:build quire_static

package quire

// The tag chooses among files, not among lines of one: Go's cache of builds does not see what pkg-config is asked for.

// #cgo pkg-config: --static quire-static
import "C"
