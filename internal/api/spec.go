package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley/internal/wire"
)

//go:embed docs.html
var docsHTML string

//go:embed docs.css
var docsCSS string

var docsPage = template.Must(template.New("docs").Funcs(template.FuncMap{"lower": strings.ToLower}).Parse(docsHTML))

func (s *Server) schema(v any) *huma.Schema {
	return s.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
}

// keys are the ways to send a key to a server with a login. The doors that check them
// decide nothing here.
var keys = map[string]*huma.SecurityScheme{
	"bearer": {Type: "http", Scheme: "bearer", Description: "A key of the server."},
	"key":    {Type: "apiKey", In: "header", Name: "X-API-Key", Description: "The same key, for clients that cannot send the other header."},
}

// specRoutes serve the OpenAPI document and a page to read it. Both are made at the first
// request. The page has no script and loads nothing.
func (s *Server) specRoutes() {
	spec := sync.OnceValues(func() (wire.Fixed, error) {
		// huma uses a pattern's description for its own message; it is not part of
		// OpenAPI.
		for _, path := range s.huma.OpenAPI().Paths {
			if path.Get == nil {
				continue
			}
			for _, p := range path.Get.Parameters {
				if p.Schema != nil {
					p.Schema.PatternDescription = ""
				}
			}
		}
		b, err := json.MarshalIndent(s.huma.OpenAPI(), "", " ")
		return wire.NewFixed(b), err
	})
	s.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		doc, err := spec()
		if err != nil {
			WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		w.Header().Set("Cache-Control", "no-cache")
		doc.Send(w, r)
	})
	page := sync.OnceValues(func() (wire.Fixed, error) {
		b, err := s.docs()
		return wire.NewFixed(b), err
	})
	sum := sha256.Sum256([]byte(docsCSS))
	csp := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'" // Home Assistant shows it in a frame of its own origin
	s.mux.HandleFunc("GET /docs", func(w http.ResponseWriter, r *http.Request) {
		doc, err := page()
		if err != nil {
			WriteError(w, err)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", csp)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache")
		doc.Send(w, r)
	})
}

type docsView struct {
	Title, Version, Description string
	CSS                         template.CSS
	Tags                        []docsTag
	Schemas                     []docsSchema
}

type docsTag struct {
	Name       string
	Operations []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Summary, Description string
	Params                                 []docsField
	Body                                   string
	BodyType                               string
	Responses                              []docsResponse
	Refusals                               []string // statuses
}

type docsField struct {
	Name, In, Type, Doc string
	Required            bool
}

type docsResponse struct {
	Status, Description string
	Types               []docsType
}

type docsType struct{ Media, Schema string }

type docsSchema struct {
	Name   string
	Fields []docsField
}

func (s *Server) docs() ([]byte, error) {
	o := s.huma.OpenAPI()
	view := docsView{Title: o.Info.Title, Version: o.Info.Version, Description: o.Info.Description, CSS: template.CSS(docsCSS)}
	byTag := map[string][]docsOperation{}
	for _, path := range slices.Sorted(maps.Keys(o.Paths)) {
		item := o.Paths[path]
		ops := operations(item)
		for _, method := range slices.Sorted(maps.Keys(ops)) {
			op := ops[method]
			byTag[op.Tags[0]] = append(byTag[op.Tags[0]], docsOf(op))
		}
	}
	for _, t := range o.Tags {
		if len(byTag[t.Name]) > 0 {
			view.Tags = append(view.Tags, docsTag{t.Name, byTag[t.Name]})
		}
	}
	all := o.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		sc := docsSchema{Name: name}
		for _, f := range slices.Sorted(maps.Keys(all[name].Properties)) {
			p := all[name].Properties[f]
			sc.Fields = append(sc.Fields, docsField{Name: f, Type: typeName(p), Doc: p.Description, Required: slices.Contains(all[name].Required, f)})
		}
		for _, one := range all[name].AnyOf {
			sc.Fields = append(sc.Fields, docsField{Type: typeName(one), Doc: one.Description})
		}
		if len(sc.Fields) > 0 {
			view.Schemas = append(view.Schemas, sc)
		}
	}
	var b bytes.Buffer
	err := docsPage.Execute(&b, view)
	return b.Bytes(), err
}

func docsOf(op *huma.Operation) docsOperation {
	d := docsOperation{ID: op.OperationID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description}
	for _, p := range op.Parameters {
		d.Params = append(d.Params, docsField{Name: p.Name, In: p.In, Type: typeName(p.Schema), Doc: p.Description, Required: p.Required})
	}
	if op.RequestBody != nil {
		for media, c := range op.RequestBody.Content {
			d.BodyType, d.Body = media, typeName(c.Schema)
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		if op.Responses[status].Ref != "" {
			if status != "default" {
				d.Refusals = append(d.Refusals, status)
			}
			continue
		}
		r := docsResponse{Status: status, Description: op.Responses[status].Description}
		for _, media := range slices.Sorted(maps.Keys(op.Responses[status].Content)) {
			r.Types = append(r.Types, docsType{media, typeName(op.Responses[status].Content[media].Schema)})
		}
		d.Responses = append(d.Responses, r)
	}
	return d
}

// typeName describes a schema in a word or two.
func typeName(s *huma.Schema) string {
	switch {
	case s == nil:
		return ""
	case s.Ref != "":
		return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	case s.Type == huma.TypeArray:
		return "list of " + typeName(s.Items)
	case s.Format != "":
		return s.Type + " (" + s.Format + ")"
	case s.Type == "":
		return "anything"
	}
	return s.Type
}
