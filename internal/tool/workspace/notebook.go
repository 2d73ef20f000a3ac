package workspace

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/seam"
)

// notebook is a Jupyter notebook of format 4 (https://nbformat.readthedocs.io/en/latest/format_description.html).
// Everything that is not understood here is kept.
type notebook struct {
	fields map[string]any
	cells  []map[string]any
}

func parseNotebook(body []byte) (*notebook, error) {
	n := &notebook{}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&n.fields); err != nil {
		return nil, err
	}
	list, ok := n.fields["cells"].([]any)
	if !ok {
		return nil, fmt.Errorf("it has no cells")
	}
	for _, c := range list {
		cell, ok := c.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("one of its cells is no object")
		}
		n.cells = append(n.cells, cell)
	}
	return n, nil
}

// encode writes the notebook as Jupyter does: keys in order, indented by one space.
func (n *notebook) encode() ([]byte, error) {
	list := make([]any, len(n.cells))
	for i, c := range n.cells {
		list[i] = c
	}
	n.fields["cells"] = list
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(n.fields)
	return b.Bytes(), err
}

// find is the index of a cell, by its id or as "cell-N", counted from 0.
func (n *notebook) find(id string) int {
	if i := slices.IndexFunc(n.cells, func(c map[string]any) bool { return c["id"] == id }); i >= 0 {
		return i
	}
	var i int
	if _, err := fmt.Sscanf(id, "cell-%d", &i); err == nil && fmt.Sprintf("cell-%d", i) == id && i >= 0 && i < len(n.cells) {
		return i
	}
	return -1
}

// idOf is what a cell is called.
func (n *notebook) idOf(i int) string {
	id, _ := n.cells[i]["id"].(string)
	return cmp.Or(id, fmt.Sprintf("cell-%d", i))
}

// text is a text that a notebook writes as a string or as lines.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var b strings.Builder
		for _, line := range v {
			s, _ := line.(string)
			b.WriteString(s)
		}
		return b.String()
	}
	return ""
}

// sourceLines is a text as a notebook writes it: its lines with their ends.
func sourceLines(s string) []any {
	list := []any{}
	for line := range strings.Lines(s) {
		list = append(list, line)
	}
	return list
}

// cells shows a notebook: each cell with its outputs that are text.
func cells(body []byte) (string, error) {
	n, err := parseNotebook(body)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, c := range n.cells {
		kind, _ := c["cell_type"].(string)
		fmt.Fprintf(&b, "[%s, %s]\n%s\n", n.idOf(i), kind, strings.TrimRight(text(c["source"]), "\n"))
		outputs, _ := c["outputs"].([]any)
		for _, o := range outputs {
			out, _ := o.(map[string]any)
			data, _ := out["data"].(map[string]any)
			said := cmp.Or(text(out["text"]), text(data["text/plain"]), text(out["traceback"]))
			if said == "" && len(data) > 0 {
				said = "(not text)"
			}
			if said != "" {
				fmt.Fprintf(&b, "[output of %s]\n%s\n", n.idOf(i), cut(strings.TrimRight(said, "\n"), 10<<10))
			}
		}
		b.WriteByte('\n')
		if b.Len() > maxReadText {
			fmt.Fprintf(&b, "(%d more cells)", len(n.cells)-i-1)
			break
		}
	}
	return strings.TrimRight(b.String(), "\n"), nil
}

// notebook plans a NotebookEdit.
func (t *Toolset) notebook(ctx context.Context, r seam.Run, tree files.Tree) (edit, error) {
	var in struct {
		File   string `json:"notebook_path"`
		Cell   string `json:"cell_id"`
		Source string `json:"new_source"`
		Kind   string `json:"cell_type"`
		Mode   string `json:"edit_mode"`
	}
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return edit{}, wrong("the input cannot be read: %v", err)
	}
	name, err := files.Clean(in.File)
	if err != nil {
		return edit{}, err
	}
	if !strings.HasSuffix(strings.ToLower(name), ".ipynb") {
		return edit{}, wrong("%s is not a notebook (.ipynb); use Edit", name)
	}
	old, was, err := t.current(ctx, r, tree, name)
	if err != nil {
		return edit{}, err
	}
	if was == "" {
		return edit{}, parley.Errorf(parley.CodeNotFound, "there is no %q", name)
	}
	n, err := parseNotebook(old)
	if err != nil {
		return edit{}, wrong("%s is not a notebook: %v", name, err)
	}
	at := -1
	if in.Cell != "" {
		if at = n.find(in.Cell); at < 0 {
			return edit{}, parley.Errorf(parley.CodeNotFound, "%s has no cell %q", name, parley.Cut(in.Cell, 80)).WithHint("Read shows the ids of its cells")
		}
	}
	did := ""
	switch mode := cmp.Or(in.Mode, "replace"); {
	case mode == "insert":
		if in.Kind == "" {
			return edit{}, wrong("a new cell needs a cell_type: code or markdown")
		}
		n.cells = slices.Insert(n.cells, at+1, n.newCell(in.Kind, in.Source))
		did = "has a new cell " + n.idOf(at+1)
	case at < 0:
		return edit{}, wrong("which cell is meant? Give its cell_id, which Read shows")
	case mode == "delete":
		did = "has no cell " + n.idOf(at) + " any more"
		n.cells = slices.Delete(n.cells, at, at+1)
	case mode == "replace":
		c := n.cells[at]
		c["source"] = sourceLines(in.Source)
		if in.Kind != "" {
			c["cell_type"] = in.Kind
		}
		if c["cell_type"] == "code" { // its outputs are not those of the new source
			c["outputs"], c["execution_count"] = []any{}, nil
		} else {
			delete(c, "outputs")
			delete(c, "execution_count")
		}
		did = "has a new source in cell " + n.idOf(at)
	default:
		return edit{}, wrong("edit_mode is %q; it is replace, insert or delete", mode)
	}
	body, err := n.encode()
	if err != nil {
		return edit{}, err
	}
	return edit{path: name, was: was, old: old, body: body, said: name + " " + did + "."}, nil
}

// newCell makes a cell. Since format 4.5 cells have ids.
func (n *notebook) newCell(kind, source string) map[string]any {
	c := map[string]any{"cell_type": kind, "metadata": map[string]any{}, "source": sourceLines(source)}
	if kind == "code" {
		c["outputs"], c["execution_count"] = []any{}, nil
	}
	major, _ := n.fields["nbformat"].(json.Number)
	minor, _ := n.fields["nbformat_minor"].(json.Number)
	a, _ := major.Int64()
	b, _ := minor.Int64()
	if a > 4 || a == 4 && b >= 5 {
		c["id"] = strings.ToLower(rand.Text()[:8])
	}
	return c
}
