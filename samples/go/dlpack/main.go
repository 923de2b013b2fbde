// DLPack both ways: the engine's buffer goes in, a layer's cache comes out as a view of the same bytes. Nothing is copied.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"quire.example/quire/bindings/go/quire"
)

func story() error {
	runtime, err := quire.NewRuntime(quire.RuntimeOptions{})
	if err != nil {
		return err
	}
	defer runtime.Close()
	model, err := quire.NewModel([]quire.Layer{{Kind: quire.LayerFull, KVHeads: 2, QHeads: 2, HeadDimK: 8, HeadDimV: 8, DType: quire.Float32}}, 64)
	if err != nil {
		return err
	}
	defer model.Close()
	config, err := quire.NewConfig(model, quire.PlanOptions{NumPages: 5})
	if err != nil {
		return err
	}
	defer config.Close()
	regions, err := config.Regions(0)
	if err != nil {
		return err
	}
	fmt.Printf("region: %d bytes, aligned to %d\n", regions[0].Bytes, regions[0].Alignment)
	buffer, err := quire.NewBuffer(int(regions[0].Bytes))
	if err != nil {
		return err
	}
	defer buffer.Close()
	numbers, err := quire.NewBuffer(60 * 4)
	if err != nil {
		return err
	}
	defer numbers.Close()
	back := func(what string) func() { return func() { fmt.Println("the", what, "is the engine's again") } }
	bytes, err := quire.NewDLTensor(buffer, quire.UInt8, []int64{int64(regions[0].Bytes)}, []int64{1}, false, back("buffer"))
	if err != nil {
		return err
	}
	defer bytes.Close()
	rows, err := quire.NewDLTensor(numbers, quire.Float32, []int64{3, 2, 8}, []int64{20, 8, 1}, true, back("query"))
	if err != nil {
		return err
	}
	defer rows.Close()
	keys, err := exchange(runtime, config, buffer, bytes, rows)
	fmt.Println("the memory is released, the view is not")
	keys.Close()
	return err
}

func exchange(runtime *quire.Runtime, config *quire.Config, buffer *quire.Buffer, bytes, rows *quire.DLTensor) (*quire.DLTensor, error) {
	device, err := quire.OpenDevice(runtime, 0)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	memory, err := quire.BindMemory(device, config, 0, bytes) // in: from here on it is the memory's
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	keys, err := memory.Export(quire.ExportOptions{}) // the keys of layer 0
	if err != nil {
		return nil, err
	}
	s := keys.Strides
	fmt.Println("keys:", strings.ReplaceAll(fmt.Sprint(keys.Shape), " ", ", "), "with strides", strings.Trim(fmt.Sprint(s), "[]"))
	element := unsafe.Add(keys.Data(), 4*(2*s[0]+5*s[2]+s[3]+7*s[4])) // out: what is written here lies in the engine's buffer
	*(*float32)(element) = 1.5
	at := uintptr(element) - uintptr(unsafe.Pointer(&buffer.Bytes()[0]))
	fmt.Printf("key of page 2, token 5, head 1, item 7: byte %d of the buffer, %.1f\n", at, buffer.Float32()[at/4])
	if _, refused := quire.ImportTensor(device, rows, 0); errors.Is(refused, quire.PermissionDenied) {
		fmt.Println(refused)
	}
	query, err := quire.ImportTensor(device, rows, quire.ImportReadOnly) // in for an op: seen where it lies
	if err == nil {
		fmt.Printf("query: strides %d %d %d bytes\n", query.Stride[0], query.Stride[1], query.Stride[2])
		query.Close()
	}
	return keys, err
}

func main() {
	if err := story(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
