// One program, any driver: QUIRE_DRIVER=cpu, null, ... names it; nothing here is compiled for one.
package main

import (
	"fmt"
	"os"

	"quire.example/quire/bindings/go/quire"
)

func numbers(values ...float32) *quire.Buffer {
	buffer, err := quire.NewBuffer(4 * len(values))
	if err != nil {
		panic(err)
	}
	copy(buffer.Float32(), values)
	return buffer
}

// Bytes: any driver has these.
func bytesStory(stream *quire.Stream) error {
	tensor, all := numbers(make([]float32, 4)...), numbers(make([]float32, 4)...)
	defer tensor.Close()
	defer all.Close()
	if err := stream.Fill(tensor, 7); err != nil {
		return err
	}
	if err := stream.Copy(tensor, all); err != nil {
		return err
	}
	if err := stream.Synchronize(-1); err != nil {
		return err
	}
	sum := 0
	for _, value := range all.Bytes()[:15] {
		sum += int(value)
	}
	fmt.Printf("tensor [3, 5] filled with 7 and copied: sum %d\n", sum)
	return nil
}

// A kernel: two partial results of attention become one. The null driver has none.
func kernelStory(stream *quire.Stream) error {
	part, lse, out := numbers(1, 2, 3, 4, 3, 4, 5, 6), numbers(0.5, 0.5), numbers(0, 0, 0, 0)
	defer part.Close()
	defer lse.Close()
	defer out.Close()
	tensor := func(buffer *quire.Buffer, offset int, shape ...int64) quire.Tensor { // [1 token, 1 head(, 4)]
		return quire.Tensor{Data: buffer, Offset: offset, DType: quire.Float32, Shape: shape}
	}
	err := stream.Merge([]quire.Tensor{tensor(part, 0, 1, 1, 4), tensor(part, 16, 1, 1, 4)},
		[]quire.Tensor{tensor(lse, 0, 1, 1), tensor(lse, 4, 1, 1)}, tensor(out, 0, 1, 1, 4))
	if err == nil {
		fmt.Printf("merged with equal weights: %.1f %.1f %.1f %.1f\n", out.Float32()[0], out.Float32()[1], out.Float32()[2], out.Float32()[3])
	}
	return err
}

func story() error {
	runtime, err := quire.NewRuntime(quire.RuntimeOptions{}) // reads QUIRE_DRIVER; the option Driver would win over it
	if err != nil {
		return err
	}
	defer runtime.Close()
	device, err := quire.OpenDevice(runtime, 0)
	if err != nil {
		return err
	}
	defer device.Close()
	info, err := device.Info()
	if err != nil {
		return err
	}
	fmt.Println("driver", info.Driver)
	stream, err := quire.NewStream(device)
	if err != nil {
		return err
	}
	defer stream.Close()
	if err = bytesStory(stream); err != nil {
		return err
	}
	return kernelStory(stream)
}

func main() {
	if err := story(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
