package invoke

// UsesRegisters reports whether the function is called without package reflect.
func (f *Function) UsesRegisters() bool { return f.registers != nil }
