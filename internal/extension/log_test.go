package extension_test

import (
	"io"
	"log/slog"
)

func logger(to io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(to, nil)) }
