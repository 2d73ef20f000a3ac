package web_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

var update = flag.Bool("update", false, "write src/api/types.gen.ts")

// TestTypes holds the pages to the vocabulary: the TypeScript types are made
// from the Go source of package parley, and committed.
//
// They are read from the source and not by reflection, because only the source
// knows the values of a string type.
func TestTypes(t *testing.T) {
	t.Parallel()
	const name = "src/api/types.gen.ts"
	got := generate(t, "Event", "Delta", "ErrorInfo", "SessionInfo", "TurnInfo", "App", "Transcript", "LoginAnswer", "LoginFinished",
		"WorkspaceInfo", "CreateWorkspace", "FileTree", "FileContent", "FileHistory", "Backlinks", "WriteFile", "MoveFile", "RewindResult",
		"Device", "AddDevice", "UpdateDevice", "Delivery", "Notify", "PushInfo", "Schedule", "UpdateSchedule", "ScheduleRun",
		"Proposal", "DecideFindings", "Entity", "EntityList", "EntityHits", "EntityFaults", "EntityGraph", "LakeFeed")
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not what the Go types say; run go test ./web -run TestTypes -update (-file +types):\n%s", name, diff)
	}
}

type vocabulary struct {
	types  map[string]*ast.TypeSpec
	docs   map[string]string
	values map[string][]string // of a string type, in source order
	events [][2]string         // event type, payload
}

func read(t *testing.T, dir string) vocabulary {
	t.Helper()
	v := vocabulary{types: map[string]*ast.TypeSpec{}, docs: map[string]string{}, values: map[string][]string{}}
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, dir+"/"+name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				v.event(d)
			case *ast.GenDecl:
				v.declaration(d)
			}
		}
	}
	return v
}

// event notes the EventType method of a payload.
func (v *vocabulary) event(d *ast.FuncDecl) {
	if d.Name.Name != "EventType" || d.Recv == nil || d.Body == nil || len(d.Body.List) != 1 {
		return
	}
	ret, ok := d.Body.List[0].(*ast.ReturnStmt)
	if !ok {
		return
	}
	if lit, ok := ret.Results[0].(*ast.BasicLit); ok {
		v.events = append(v.events, [2]string{unquote(lit), d.Recv.List[0].Type.(*ast.Ident).Name})
	}
}

func (v *vocabulary) declaration(d *ast.GenDecl) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			v.types[s.Name.Name] = s
			doc := s.Doc
			if doc == nil && len(d.Specs) == 1 {
				doc = d.Doc
			}
			v.docs[s.Name.Name] = strings.TrimSpace(doc.Text())
		case *ast.ValueSpec:
			if of, ok := s.Type.(*ast.Ident); ok && d.Tok == token.CONST && len(s.Values) == 1 {
				if lit, ok := s.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					v.values[of.Name] = append(v.values[of.Name], unquote(lit))
				}
			}
		}
	}
}

func generate(t *testing.T, roots ...string) []byte {
	t.Helper()
	v := read(t, "..")
	for _, e := range v.events {
		roots = append(roots, e[1])
	}
	var b bytes.Buffer
	b.WriteString("// Code generated from package parley by go test ./web -run TestTypes -update; DO NOT EDIT.\n")
	fmt.Fprintf(&b, "\n/** What commands may carry: characters, and bytes of a pin. */\n"+
		"export const limits = { title: %d, reason: %d, answer: %d, pin: %d, pins: %d, credential: %d } as const;\n",
		parley.MaxTitle, parley.MaxReason, parley.MaxAnswer, parley.MaxPin, parley.MaxPins, parley.MaxCredential)
	done := map[string]bool{}
	for len(roots) > 0 {
		name := roots[0]
		roots = roots[1:]
		spec := v.types[name]
		if done[name] {
			continue
		}
		if spec == nil {
			t.Fatalf("package parley has no type %s", name)
		}
		done[name] = true
		b.WriteString("\n")
		if doc := v.docs[name]; doc != "" {
			b.WriteString("/** " + strings.ReplaceAll(doc, "\n", "\n * ") + " */\n")
		}
		var needs []string
		if name == "Event" {
			needs = v.union(&b, spec)
		} else {
			needs = v.declare(&b, spec)
		}
		roots = append(needs, roots...)
	}
	return b.Bytes()
}

// union writes Event as one type a kind, so that a switch over type narrows data.
func (v *vocabulary) union(b *bytes.Buffer, spec *ast.TypeSpec) []string {
	b.WriteString("export type Event = EventOf[keyof EventOf];\n\nexport interface EventBase {\n")
	fields, needs := v.fields(spec.Type.(*ast.StructType))
	for _, f := range fields {
		if f.name != "type" && f.name != "data" {
			b.WriteString(f.String())
		}
	}
	b.WriteString("}\n\nexport interface EventOf {\n")
	for _, e := range v.events {
		fmt.Fprintf(b, "  %q: EventBase & { type: %q; data: %s };\n", e[0], e[0], e[1])
	}
	b.WriteString("}\n\n/** What Parley calls its kinds of events. */\nexport const eventTypes = [\n")
	for _, e := range v.events {
		fmt.Fprintf(b, "  %q,\n", e[0])
	}
	b.WriteString("] as const;\n")
	return slices.DeleteFunc(needs, func(n string) bool { return n == "EventType" })
}

func (v *vocabulary) declare(b *bytes.Buffer, spec *ast.TypeSpec) []string {
	name := spec.Name.Name
	st, ok := spec.Type.(*ast.StructType)
	if !ok {
		alias, needs := v.expr(spec.Type)
		if values := v.values[name]; len(values) > 0 {
			quoted := make([]string, len(values))
			for i, s := range values {
				quoted[i] = strconv.Quote(s)
			}
			alias = strings.Join(quoted, " | ")
			if open := name == "Code"; open {
				alias += " | (string & {})" // only ever added to; a page may be older than its server
			}
		}
		if name == "Duration" {
			alias = "string" // it marshals as text
		}
		fmt.Fprintf(b, "export type %s = %s;\n", name, alias)
		return needs
	}
	fields, needs := v.fields(st)
	extends := embedded(st)
	needs = append(needs, extends...)
	fmt.Fprintf(b, "export interface %s ", name)
	if len(extends) > 0 {
		fmt.Fprintf(b, "extends %s ", strings.Join(extends, ", "))
	}
	b.WriteString("{\n")
	for _, f := range fields {
		b.WriteString(f.String())
	}
	b.WriteString("}\n")
	return needs
}

type field struct {
	name, typ, doc string
	optional       bool
}

func (f field) String() string {
	mark := ""
	if f.optional {
		mark = "?"
	}
	line := "  " + f.name + mark + ": " + f.typ + ";"
	if f.doc != "" {
		line += " // " + f.doc
	}
	return line + "\n"
}

func (v *vocabulary) fields(st *ast.StructType) (fields []field, needs []string) {
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 || f.Tag == nil || !f.Names[0].IsExported() {
			continue
		}
		tag := reflect.StructTag(unquote(f.Tag)).Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" || name == "" {
			continue
		}
		typ, more := v.expr(f.Type)
		optional := strings.Contains(options, "omit")
		if _, slice := f.Type.(*ast.ArrayType); slice && !optional {
			typ += " | null" // a nil slice
		}
		if optional {
			typ = strings.TrimSuffix(typ, " | null") // nil is left out
		}
		fields = append(fields, field{
			name: name, typ: typ, optional: optional,
			doc: strings.ReplaceAll(strings.TrimSpace(f.Comment.Text()), "\n", " "),
		})
		needs = append(needs, more...)
	}
	return fields, needs
}

// embedded names the structs whose fields are also st's.
func embedded(st *ast.StructType) (names []string) {
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 {
			names = append(names, f.Type.(*ast.Ident).Name)
		}
	}
	return names
}

func (v *vocabulary) expr(e ast.Expr) (typ string, needs []string) {
	switch e := e.(type) {
	case *ast.Ident:
		switch e.Name {
		case "string":
			return "string", nil
		case "bool":
			return "boolean", nil
		case "int", "int64", "float64":
			return "number", nil
		case "any":
			return "unknown", nil
		}
		return e.Name, []string{e.Name}
	case *ast.StarExpr:
		typ, needs = v.expr(e.X)
		return typ + " | null", needs
	case *ast.ArrayType:
		if of, ok := e.Elt.(*ast.Ident); ok && of.Name == "byte" {
			return "string", nil // in base64
		}
		typ, needs = v.expr(e.Elt)
		return typ + "[]", needs
	case *ast.MapType:
		typ, needs = v.expr(e.Value)
		return "Record<string, " + typ + ">", needs
	case *ast.SelectorExpr:
		switch e.Sel.Name {
		case "Time":
			return "string", nil
		case "Duration":
			return "number", nil
		}
	}
	return "unknown", nil // json.RawMessage
}

func unquote(l *ast.BasicLit) string {
	s, err := strconv.Unquote(l.Value)
	if err != nil {
		panic(err) // the parser accepted it
	}
	return s
}
