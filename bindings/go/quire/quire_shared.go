//go:build !quire_static

package quire

// #cgo pkg-config: quire
import "C"
