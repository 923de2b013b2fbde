// Claim: every exported field of every exported struct says what it is. Method: the source text.
package quire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"
)

// Exported fields of a struct, and those that no comment describes.
func fieldsOf(of *ast.StructType) (all int, silent []string) {
	for _, field := range of.Fields.List {
		for _, name := range field.Names {
			if !name.IsExported() {
				continue
			}
			all++
			if field.Doc.Text() == "" && field.Comment.Text() == "" {
				silent = append(silent, name.Name)
			}
		}
	}
	return all, silent
}

func TestEveryFieldIsDocumented(t *testing.T) {
	sources := func(info fs.FileInfo) bool { return !strings.HasSuffix(info.Name(), "_test.go") }
	packages, err := parser.ParseDir(token.NewFileSet(), ".", sources, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for _, file := range packages["quire"].Files {
		ast.Inspect(file, func(node ast.Node) bool {
			declared, ok := node.(*ast.TypeSpec)
			if !ok || !declared.Name.IsExported() {
				return true
			}
			if of, ok := declared.Type.(*ast.StructType); ok {
				n, silent := fieldsOf(of)
				all += n
				for _, name := range silent {
					t.Errorf("%s.%s is not documented", declared.Name.Name, name)
				}
			}
			return true
		})
	}
	if all < 600 {
		t.Errorf("%d fields were found", all)
	}
}
