package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

// TestCredentialFlags: a flag says where a credential is. It never has the value, which all
// users of a machine could see; one that has it all the same is refused and not repeated.
func TestCredentialFlags(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	for name, text := range map[string]string{"token": "of a file\r\n", "long": strings.Repeat("x", parley.MaxCredential+1), "empty": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CRM_TOKEN", "of the variable")
	t.Setenv("OTHER", "of another")
	for name, c := range map[string]struct {
		flags []string
		want  parley.Credentials
		says  string // of an error
	}{
		"none":                      {nil, nil, ""},
		"of the same name":          {[]string{"CRM_TOKEN"}, parley.Credentials{"CRM_TOKEN": "of the variable"}, ""},
		"a variable and a file":     {[]string{"A=env:OTHER", "B=file:" + file}, parley.Credentials{"A": "of another", "B": "of a file"}, ""},
		"the last of two":           {[]string{"A=env:OTHER", "A=file:" + file}, parley.Credentials{"A": "of a file"}, ""},
		"a variable that is absent": {[]string{"A=env:PARLEY_ABSENT"}, nil, "the variable PARLEY_ABSENT is not set"},
		"nowhere to ask":            {[]string{"PARLEY_ABSENT"}, nil, "there is no terminal to ask on"},
		"a file that is absent":     {[]string{"A=file:" + file + "s"}, nil, "no such file"},
		"a value":                   {[]string{"A=hunter2-hunter2"}, nil, "the credential A: write env:VARIABLE or file:PATH after ="},
		"a value of another form":   {[]string{"A=hunter2:hunter2"}, nil, "the credential A: write env:VARIABLE or file:PATH after ="},
		"no name":                   {[]string{"=env:OTHER"}, nil, "needs a name"},
		"a value for a name":        {[]string{"hunter2-hunter2"}, nil, "needs a name"},
		"a long file":               {[]string{"A=file:" + filepath.Join(dir, "long")}, nil, "more than 8192 bytes"},
		"an empty file":             {[]string{"A=file:" + filepath.Join(dir, "empty")}, nil, "fewer than 6 bytes"},
	} {
		got, err := credentials(t.Context(), c.flags, nil)
		if diff := cmp.Diff(map[string]string(c.want), map[string]string(got)); diff != "" || (err == nil) != (c.says == "") {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		if err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") || parley.CodeOf(err) == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
