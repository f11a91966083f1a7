//! The compiler step as one program: each file is linked once, not by itself.

mod compile {
    mod expressions;
    mod instructions;
    mod kernels;
}
