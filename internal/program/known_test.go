package program

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/redact"
)

func TestSecretsOfTheEnvironment(t *testing.T) {
	t.Parallel()
	there := func(path string) bool { return path == "/run/secrets/db" }
	for name, c := range map[string]struct {
		env  []string
		want []string
	}{
		"named like a secret": {[]string{"OPENAI_API_KEY=one-1", "pgpassword=two", "LANGFUSE_AUTH=three+3", "NO_VALUE"}, []string{"one-1", "two", "three+3"}},
		"others":              {[]string{"HOME=/home/ana", "PATH=/bin", "EDITOR=vi", "OTEL_SERVICE_NAME=parley", "GIT_ASKPASS=askpass1"}, nil},
		"in addresses":        {[]string{"DATABASE_URL=postgres://me:f%40ur@db/x", "PROXY=http://proxy:8080", "ODD=://:"}, []string{"f@ur"}},
		"for a collector": {
			[]string{"OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20Zml2ZTo1,x-key=six-66,x-scope=tenants"},
			[]string{"Basic Zml2ZTo1", "Zml2ZTo1", "six-66"},
		},
		"switches": {[]string{
			"SMTP_AUTH=enabled", "HTTP_AUTH=TRUE", "REDIS_AUTH=none", "API_AUTH=Disabled", "TLS_PASS=required", "RETRY_PASS=3600000",
			"SORT_KEY=created_at", "META_KEY=8080", "ADMIN_TOKEN=localhost", "OLLAMA_API_KEY=ollama", "MODEL_API_KEY=not-needed",
			"CSRF_TOKEN=X-CSRF-Token",
		}, nil},
		"defaults that all know": {[]string{
			"POSTGRES_PASSWORD=postgres", "MYSQL_ROOT_PASSWORD=Password", "DATABASE_URL=postgres://postgres:postgres@db/x", "TRUSTSTORE_PASSWORD=changeit",
		}, nil},
		"chosen by a person": {
			[]string{"DB_PASSWORD=sunshine", "DOOR_PASSWORD=482913", "SSH_PASSPHRASE=correct horse", "SMTP_PASS=hunter2", "APP_PASS=hunter-two-three"},
			[]string{"sunshine", "482913", "correct horse", "hunter2", "hunter-two-three"},
		},
		"made by a machine": {
			[]string{"GMAIL_PASS=abcdefghijklmnop", "A_TOKEN=12345678", "B_TOKEN=a1b2c3", "C_SECRET=aBcDeFgH", "D_KEY=x/y+z=="},
			[]string{"abcdefghijklmnop", "12345678", "a1b2c3", "aBcDeFgH", "x/y+z=="},
		},
		"a file": {
			[]string{"DB_PASSWORD=/run/secrets/db", "GOOGLE_APPLICATION_CREDENTIALS=/run/secrets/db", "X_KEY=/run/secrets/gone1"},
			[]string{"/run/secrets/gone1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := slices.DeleteFunc(secrets(c.env, there), func(s string) bool { return s == "" })
			if diff := cmp.Diff(c.want, got); diff != "" && len(c.want)+len(got) > 0 {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOrdinaryWordsOfTheEnvironmentPass: harmless values of an operator's environment pass the
// redactor unchanged in an agent's text, although the redactor is told about that environment.
func TestOrdinaryWordsOfTheEnvironmentPass(t *testing.T) {
	t.Parallel()
	r := redact.New(secrets([]string{"SMTP_AUTH=enabled", "REDIS_AUTH=none", "DB_PASSWORD=postgres", "CACHE_KEY=sensors", "X_PASS=300000"}, isFile)...)
	const text = "SMTP is enabled, postgres listens, none of 300000 sensors is off"
	if got, found := r.String(text); found {
		t.Errorf("got %q, want it unchanged", got)
	}
}
