package command

// Throttled reads below another root.
var Throttled = throttled
