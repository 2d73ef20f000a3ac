package workspace

// Required returns texts of which every match of an expression has at least one.
var Required = required
