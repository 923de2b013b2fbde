//go:build !quire_static

package decode

// #cgo pkg-config: quire
import "C"
