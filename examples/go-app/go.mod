module example.com/go-app

go 1.26.0

require github.com/parley-server/parley v0.1.0
