package config

import "regexp"

var toolKind = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)

// ToolKind reports whether a kind of tools may have a name: it is a key under tools in an app.yaml.
func ToolKind(name string) bool { return toolKind.MatchString(name) }

// AppName reports whether an app may have a name: it is that of its folder.
func AppName(name string) bool { return appName.MatchString(name) }
