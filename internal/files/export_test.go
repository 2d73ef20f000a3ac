package files

// TemporaryName is the name of a file that is being written.
var TemporaryName = temporaryName
