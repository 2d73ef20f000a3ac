package pattern_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestAll compiles the expressions of all packages, since no package does it when it starts.
func TestAll(t *testing.T) {
	folders := map[string][]*ast.File{}
	places := token.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(places, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folders[filepath.Dir(path)] = append(folders[filepath.Dir(path)], file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	spelt := 0
	for _, files := range folders {
		values := values(files)
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !isNew(call) {
					return true
				}
				text, ok := text(call.Args[0], values, 0)
				if !ok { // a function's argument: its callers make a table, which one question goes through
					return true
				}
				spelt++
				if _, err := regexp.Compile(text); err != nil {
					t.Errorf("%s: %v", places.Position(call.Pos()), err)
				}
				return true
			})
		}
	}
	if spelt < 400 {
		t.Errorf("found %d expressions that are spelt out, fewer than there are", spelt)
	}
}

func isNew(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 1 || s.Sel.Name != "New" {
		return false
	}
	from, ok := s.X.(*ast.Ident)
	return ok && from.Name == "pattern"
}

// values are the constants and variables of a package with one value each.
func values(files []*ast.File) map[string]ast.Expr {
	m := map[string]ast.Expr{}
	for _, file := range files {
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				v, ok := s.(*ast.ValueSpec)
				if !ok || len(v.Names) != len(v.Values) {
					continue
				}
				for i, name := range v.Names {
					m[name.Name] = v.Values[i]
				}
			}
		}
	}
	return m
}

// text is the value of an expression of literals, names and their sums.
func text(e ast.Expr, values map[string]ast.Expr, depth int) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.ParenExpr:
		return text(e.X, values, depth)
	case *ast.Ident:
		if v, ok := values[e.Name]; ok && depth < 20 {
			return text(v, values, depth+1)
		}
	case *ast.BinaryExpr:
		x, ok := text(e.X, values, depth)
		y, also := text(e.Y, values, depth)
		return x + y, ok && also && e.Op == token.ADD
	}
	return "", false
}
