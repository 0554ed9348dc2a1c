"""WideCompiler's classes of single layers (`primitives`) and blocks (`blocks`), one for each registered target."""
