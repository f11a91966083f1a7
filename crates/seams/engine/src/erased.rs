//! What runs on a node as a value behind a pointer: any program, kernel or datapath, compared, hashed and copied like the state that
//! it is. So a node is one type whatever its groups run, and somebody else's crate can bring what nobody here knows.

/// Declares a trait for values of any type that implements another one and are part of an engine's state. A box of it is
/// `Clone`, `Eq`, `Hash` and `Debug`, as engines must be; two are equal if they are of one type and equal.
///
/// ```
/// use core::{any::Any, fmt::Debug, hash::{Hash, Hasher}};
/// trait Counter {
///     fn count(&self) -> u32;
/// }
/// quincunx_engine::erased! {
///     /// A counter of any type.
///     pub trait AnyCounter: Counter
/// }
/// #[derive(Clone, PartialEq, Eq, Hash, Debug)]
/// struct Three;
/// impl Counter for Three {
///     fn count(&self) -> u32 {
///         3
///     }
/// }
/// let counter: Box<dyn AnyCounter> = Box::new(Three);
/// assert_eq!(counter.clone(), counter);
/// assert_eq!(counter.count(), 3);
/// ```
#[macro_export]
macro_rules! erased {
    ($(#[$doc:meta])* $vis:vis trait $Name:ident $(<$P:ident: $Bound:path>)?: $Base:path) => {
        $(#[$doc])*
        $vis trait $Name $(<$P: $Bound>)?: $Base + ::core::fmt::Debug + Send + Sync {
            /// A copy.
            fn clone_boxed(&self) -> $crate::Box<dyn $Name $(<$P>)?>;
            /// Whether `other` is of the same type and equal.
            fn is_equal(&self, other: &dyn ::core::any::Any) -> bool;
            /// Feeds its value into a hash.
            fn hash_into(&self, state: &mut dyn ::core::hash::Hasher);
            /// Itself, to be compared.
            fn as_any(&self) -> &dyn ::core::any::Any;
        }

        impl<$($P: $Bound,)? T> $Name $(<$P>)? for T
        where
            T: $Base + Clone + Eq + ::core::hash::Hash + ::core::fmt::Debug + Send + Sync + 'static,
        {
            fn clone_boxed(&self) -> $crate::Box<dyn $Name $(<$P>)?> {
                $crate::Box::new(self.clone())
            }

            fn is_equal(&self, other: &dyn ::core::any::Any) -> bool {
                other.downcast_ref::<T>().is_some_and(|other| self == other)
            }

            fn hash_into(&self, mut state: &mut dyn ::core::hash::Hasher) {
                ::core::hash::Hash::hash(self, &mut state);
            }

            fn as_any(&self) -> &dyn ::core::any::Any {
                self
            }
        }

        impl $(<$P: $Bound>)? Clone for $crate::Box<dyn $Name $(<$P>)?> {
            fn clone(&self) -> Self {
                (**self).clone_boxed()
            }
        }

        impl $(<$P: $Bound>)? PartialEq for $crate::Box<dyn $Name $(<$P>)?> {
            fn eq(&self, other: &Self) -> bool {
                (**self).is_equal((**other).as_any())
            }
        }

        // Without it a derived comparison of what holds such a box would move it (rust-lang/rust#31740).
        impl $(<$P: $Bound>)? PartialEq<&Self> for $crate::Box<dyn $Name $(<$P>)?> {
            fn eq(&self, other: &&Self) -> bool {
                (**self).is_equal((***other).as_any())
            }
        }

        impl $(<$P: $Bound>)? Eq for $crate::Box<dyn $Name $(<$P>)?> {}

        impl $(<$P: $Bound>)? ::core::hash::Hash for $crate::Box<dyn $Name $(<$P>)?> {
            fn hash<H: ::core::hash::Hasher>(&self, state: &mut H) {
                (**self).hash_into(state);
            }
        }
    };
}
