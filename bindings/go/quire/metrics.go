package quire

// #include <quire/metrics.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// MetricsSource is objects that count, and the labels of their samples. Nil = none.
type MetricsSource struct {
	Cache  *Cache  // nil = none
	Tiers  *Tiers  // nil = none
	Memory *Memory // one shard; its device is reported with it
	Labels string  // as in the text: engine="0",model_name="m"
}

// MetricsFormat is the form of the text.
type MetricsFormat int32

// The forms, with their Content-Type.
const (
	OpenMetrics       MetricsFormat = C.QUIRE_METRICS_OPENMETRICS // application/openmetrics-text; version=1.0.0; charset=utf-8
	PrometheusMetrics MetricsFormat = C.QUIRE_METRICS_PROMETHEUS  // text/plain; version=0.0.4; charset=utf-8
)

// WriteMetrics is the metrics of all sources as one text. Any goroutine, while nobody closes them.
// Errors: InvalidArgument (labels: syntax, a name twice or one of quire's; two sources with the
// same labels).
func WriteMetrics(sources []MetricsSource, format MetricsFormat) (string, error) {
	var a arena
	defer a.free()
	all := make([]C.quire_metrics_source, len(sources))
	for i, s := range sources {
		all[i].labels = a.text(s.Labels)
		if s.Cache != nil {
			all[i].cache = s.Cache.c()
		}
		if s.Tiers != nil {
			all[i].tiers = s.Tiers.c()
		}
		if s.Memory != nil {
			all[i].memory = s.Memory.c()
		}
	}
	if err := a.missing(); err != nil {
		return "", err
	}
	text, err := list(byte(0), func(items *byte, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_metrics_write((*C.quire_metrics_source)(first(all)), C.uint64_t(len(all)), C.quire_metrics_format(format), (*C.char)(unsafe.Pointer(items)), n, count, err)
	})
	runtime.KeepAlive(sources)
	return string(text), err
}
