// Claim: no function of this package lets the finalizer of an object run while C still uses the object's pointer. Method: the source text: who
// takes the pointer out of a handle keeps the object alive behind it; and references that are taken with the collector running.
package quire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Functions that only hand the pointer on: their callers keep the object alive.
var handsOn = map[string]string{
	"c": "the accessor itself", "address": "the accessor itself", "Close": "runs when nobody needs the object", "end": "a finalizer",
	"valueOf": "Invoke keeps the arguments", "Run": "documented: the buffer must live until the ticket's end", "Bytes": "documented",
	"Float32": "documented", "Uint16": "documented", "Int32": "documented", "Int64": "documented", "Len": "compares with nil",
	"check": "compares with nil", "gone": "compares with nil", "closed": "compares with nil",
}

// The name of a type, without star and package.
func typeName(of ast.Expr) string {
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// The structs that embed handle, or the owner of steps or the set of tiers, which do.
func handleTypes(files []*ast.File) map[string]bool {
	types := map[string]bool{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if body, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range body.Fields.List {
					of := typeName(field.Type)
					if len(field.Names) == 0 && (of == "handle" || of == "owner" || of == "tierSet") {
						types[spec.Name.Name] = true
					}
				}
			}
			return true
		})
	}
	return types
}

// Receiver and parameters that are handles.
func handlesOf(f *ast.FuncDecl, types map[string]bool) map[string]bool {
	names := map[string]bool{}
	for _, list := range []*ast.FieldList{f.Recv, f.Type.Params} {
		if list == nil {
			continue
		}
		for _, field := range list.List {
			for _, name := range field.Names {
				if types[typeName(field.Type)] {
					names[name.Name] = true
				}
			}
		}
	}
	return names
}

// Where the pointer of each handle is taken last, and where the handle is kept or held last.
func usesOf(f *ast.FuncDecl, handles map[string]bool) (taken, kept map[string]token.Pos) {
	taken, kept = map[string]token.Pos{}, map[string]token.Pos{}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if use, ok := n.(*ast.SelectorExpr); ok {
			of, _ := use.X.(*ast.Ident)
			if of != nil && handles[of.Name] && (use.Sel.Name == "p" || use.Sel.Name == "c" || use.Sel.Name == "address") {
				taken[of.Name] = use.Pos()
			}
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if to, ok := call.Fun.(*ast.SelectorExpr); ok && (to.Sel.Name == "KeepAlive" || to.Sel.Name == "hold") {
			for _, arg := range call.Args {
				if cast, ok := arg.(*ast.CallExpr); ok && len(cast.Args) == 1 {
					arg = cast.Args[0] // unsafe.Pointer(x)
				}
				if of, ok := arg.(*ast.Ident); ok {
					kept[of.Name] = call.Pos()
					if to.Sel.Name == "hold" { // until the stream was synchronized
						kept[of.Name] = f.Body.End()
					}
				}
			}
		}
		return true
	})
	return taken, kept
}

func TestWhoTakesAPointerOutOfAHandleKeepsItAlive(t *testing.T) {
	set := token.NewFileSet()
	packages, err := parser.ParseDir(set, ".", func(info fs.FileInfo) bool { return !strings.HasSuffix(info.Name(), "_test.go") }, 0)
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, file := range packages["quire"].Files {
		files = append(files, file)
	}
	types, looked := handleTypes(files), 0
	if len(types) != 16 {
		t.Fatalf("handles: %v", types)
	}
	for _, file := range files {
		for _, declared := range file.Decls {
			f, ok := declared.(*ast.FuncDecl)
			if !ok || f.Body == nil || handsOn[f.Name.Name] != "" {
				continue
			}
			taken, kept := usesOf(f, handlesOf(f, types))
			for name, at := range taken {
				looked++
				if kept[name] < at {
					t.Errorf("%s: %s takes the pointer of %s and does not keep it alive", set.Position(at), f.Name.Name, name)
				}
			}
		}
	}
	if looked < 40 {
		t.Errorf("only %d uses were looked at", looked)
	}
}

// Every object has no other reference when it is shared, and its finalizer is ready.
func TestASharedObjectIsThereBeforeItsFirstReferenceGoes(t *testing.T) {
	var over uint32
	done := make(chan bool)
	go func() {
		for atomic.LoadUint32(&over) == 0 {
			runtime.GC()
		}
		close(done)
	}()
	rt, device, _ := onCPU()
	config := planOf(33, fullLayer(0))
	share := map[string]func() error{
		"Runtime": func() error {
			r := must(NewRuntime(RuntimeOptions{NoEnv: true, Driver: "null"})).Share()
			defer r.Close()
			_, err := r.Ops("")
			return err
		},
		"Device": func() error {
			d := must(OpenDevice(rt, 0)).Share()
			defer d.Close()
			_, err := d.Info()
			return err
		},
		"Model": func() error {
			m := must(NewModel([]Layer{fullLayer(0)}, 256)).Share()
			defer m.Close()
			_, err := m.Info()
			return err
		},
		"Config": func() error {
			c := planOf(33, fullLayer(0)).Share()
			defer c.Close()
			_, err := c.Info()
			return err
		},
		"Cache": func() error {
			c := must(NewCache(nil, config, CacheOptions{MaxSequences: 2})).Share()
			defer c.Close()
			_, err := c.Stats()
			return err
		},
		"Memory": func() error {
			m := must(NewMemory(device, config, 0)).Share()
			defer m.Close()
			_, _, err := m.Region(0)
			return err
		},
		"Stream": func() error {
			s := must(NewStream(device)).Share()
			defer s.Close()
			return s.Synchronize(-1)
		},
		"Tiers": func() error {
			e := newEngine(16)
			defer e.close()
			tiers := must(NewTiers(e.cache, e.options(e.host()))).Share()
			defer tiers.Close()
			_, err := tiers.Stats()
			return err
		},
		"Connector": func() error {
			c := must(OpenConnector(rt, "null", "")).Share()
			defer c.Close()
			_, err := c.Info()
			return err
		},
	}
	for name, once := range share {
		for i, end := 0, time.Now().Add(250*time.Millisecond); i < 20 || time.Now().Before(end); i++ {
			if err := once(); err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
	}
	atomic.StoreUint32(&over, 1)
	<-done
	runtime.KeepAlive(rt)
}
