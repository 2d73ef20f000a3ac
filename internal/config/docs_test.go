package config

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestDocs_have_all_keys: the list of keys in docs/apps.md leaves none out.
func TestDocs_have_all_keys(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/apps.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(raw), "\n## All keys of app.yaml\n")
	if !found {
		t.Fatal("there is no such list")
	}
	for _, file := range []any{appFile{}, agentFile{}, ttlFile{}, streamingFile{}, concurrencyFile{}, parley.Policy{}, parley.Budgets{}, parley.MemoryOptions{}} {
		typ := reflect.TypeOf(file)
		for field := range typ.Fields() {
			key, _, _ := strings.Cut(field.Tag.Get("yaml")+field.Tag.Get("json"), ",")
			if !strings.Contains(list, "`"+key+"`") && !strings.Contains(list, "."+key+"`") && !strings.Contains(list, "`"+key+".") {
				t.Errorf("%s.%s is not in the list", typ.Name(), key)
			}
		}
	}
}
